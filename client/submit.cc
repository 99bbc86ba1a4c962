#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/job_file.h"
#include "client/json.h"
#include "client/upload.h"
#include "client/watcher.h"
#include "common/base/status.h"
#include "common/spec/check.h"

namespace tally {
namespace {

constexpr int kAttempts = 4;

struct Options {
  std::string file;
  std::string token;
  bool watch = false;
};

std::string NewToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&token, "%08x", random());
  return token;
}

// Runs what is safe to repeat again while the server is not reachable, a few times.
template <typename Result>
absl::StatusOr<Result> Retried(Session& session,
                               const std::function<absl::StatusOr<Result>()>& call) {
  Backoff backoff = CommandBackoff();
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<Result> result = call();
    if (!absl::IsUnavailable(result.status()) || attempt == kAttempts || session.Expired()) {
      return result;
    }
    session.err() << "trying again: " << result.status().message() << std::endl;
    if (!session.interrupt().WaitFor(backoff.Next())) return absl::CancelledError("interrupted");
  }
}

void Print(Session& session, const v1::SubmitJobResponse& response) {
  if (session.options().json) {
    session.out() << JsonLine(ToJson(response)) << std::endl;
    return;
  }
  if (!response.created()) session.err() << "submitted before under this token" << std::endl;
  session.out() << response.job_id() << std::endl;
}

absl::Status Submit(Session& session, const Options& options) {
  v1::SubmitJobRequest request;
  request.set_token(options.token.empty() ? NewToken() : options.token);
  if (!IsToken(request.token())) {
    return absl::InvalidArgumentError(
        "--token: expected 1 to 64 characters of A-Z, a-z, 0-9, _, -");
  }
  TALLY_ASSIGN_OR_RETURN(const JobFile file, ReadJobFile(options.file));
  *request.mutable_spec() = file.spec;
  if (!file.base.empty()) {
    const auto upload = [&] { return UploadModel(session, file.base); };
    TALLY_ASSIGN_OR_RETURN(const std::string digest, Retried<std::string>(session, upload));
    request.mutable_spec()->mutable_model()->set_base_digest(digest);
  }
  const auto submit = [&] { return session.Call(&v1::JobService::Stub::SubmitJob, request); };
  TALLY_ASSIGN_OR_RETURN(const v1::SubmitJobResponse response,
                         Retried<v1::SubmitJobResponse>(session, submit));
  Print(session, response);
  return options.watch ? WatchToTheEnd(session, response.job_id()) : absl::OkStatus();
}

}  // namespace

void AddSubmit(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Session& session = line.session;
  // No limit of time of its own: a base model or --watch may take long.
  CLI::App* command =
      AddCommand(line, "submit", "Submit a job and print its id", absl::InfiniteDuration(),
                 [&session, options] { return Submit(session, *options); });
  command->add_option("FILE", options->file, "Job file (YAML, docs/job-file.md)")->required();
  command->add_flag("--watch", options->watch, "Follow the job to its end, as `tally watch`");
  command->add_option(
      "--token", options->token,
      "Name of this submission; repeated, it submits nothing new (default: random)");
}

}  // namespace tally
