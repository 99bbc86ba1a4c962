#include "client/session.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/status.h"

namespace tally {
namespace {

// "90", in seconds, or with a unit: "90s", "5m".
absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  double seconds = 0;
  absl::Duration timeout;
  if (absl::SimpleAtod(text, &seconds)) timeout = absl::Seconds(seconds);
  const bool parsed = seconds != 0 || absl::ParseDuration(text, &timeout);
  if (!parsed || timeout <= absl::ZeroDuration() || timeout == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--timeout: expected seconds or a duration like 30s or 5m, found \"", text, "\""));
  }
  return timeout;
}

// The caller typed the address, paths and so on: whatever is wrong with them is a bad argument.
absl::Status AsBadArgument(const absl::Status& status) {
  return absl::InvalidArgumentError(status.message());
}

}  // namespace

absl::Status Session::Open(absl::Duration default_timeout) {
  absl::Duration timeout = default_timeout;
  if (!options_.timeout.empty()) {
    TALLY_ASSIGN_OR_RETURN(timeout, ParseTimeout(options_.timeout));
  }
  deadline_ = absl::Now() + timeout;
  auto channel = CreateChannel(options_.server, {.tls = options_.tls});
  if (!channel.ok()) return AsBadArgument(channel.status());
  stub_ = v1::JobService::NewStub(*channel);
  return absl::OkStatus();
}

void Session::Prepare(grpc::ClientContext& context) const {
  if (deadline_ != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline_));
}

absl::Status Session::TimeIsOver() const {
  return absl::DeadlineExceededError(
      absl::StrCat("server ", options_.server, ": not done within the time given"));
}

absl::Status Session::ServerError(const grpc::Status& status) const {
  const absl::Status error = Explain(FromGrpcStatus(status), options_.server);
  switch (error.code()) {
    case absl::StatusCode::kCancelled:
      if (interrupt_.triggered()) return absl::CancelledError("interrupted");
      return absl::UnavailableError(
          absl::StrCat("server ", options_.server, ": ended the call: ", error.message()));
    case absl::StatusCode::kDeadlineExceeded:
      return TimeIsOver();
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return absl::AbortedError(absl::StrCat("server ", options_.server, ": ", error.message()));
    default:
      return error;
  }
}

}  // namespace tally
