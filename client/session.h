// What every command works with: where the server is, where output goes, how calls are made.
#pragma once

#include <chrono>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/interrupt.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"
#include "grpcpp/client_context.h"
#include "proto/tally/v1/control.grpc.pb.h"

namespace tally {

struct GlobalOptions {
  std::string server = "127.0.0.1:7070";
  TlsOptions tls;
  std::string timeout;  // as typed; empty: each kind of command has its own
  bool json = false;
};

// Where a command writes. Data goes to `out`, messages to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  // out is one: progress bars are for it
  int width = 80;         // columns
};

class Session {
 public:
  Session(GlobalOptions options, Console console, Interrupt& interrupt)
      : options_(std::move(options)), console_(console), interrupt_(interrupt) {}

  // Checks options and makes the channel; nothing is connected yet. INVALID_ARGUMENT.
  // Without a --timeout the command has `default_timeout`, which may be infinite.
  absl::Status Open(absl::Duration default_timeout);

  const GlobalOptions& options() const { return options_; }
  GlobalOptions& options() { return options_; }
  Console& console() { return console_; }
  std::ostream& out() { return console_.out; }
  std::ostream& err() { return console_.err; }
  Interrupt& interrupt() { return interrupt_; }
  // Open() first.
  v1::JobService::Stub& stub() { return *stub_; }

  // Gives the call what is left of the command's time.
  void Prepare(grpc::ClientContext& context) const;
  bool Expired() const { return absl::Now() >= deadline_; }
  // DEADLINE_EXCEEDED, in words.
  absl::Status TimeIsOver() const;
  // A call's status as the command's own: words for people, CANCELLED only for Ctrl-C.
  absl::Status ServerError(const grpc::Status& status) const;

  // stub().*method(request), with the command's deadline and Ctrl-C.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                             const Request&,
                                                                             Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Prepare(context);
    const Interrupt::Guard guard(interrupt_, context);
    Response response;
    const absl::Status status = ServerError((*stub_.*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

 private:
  GlobalOptions options_;
  Console console_;
  Interrupt& interrupt_;
  absl::Time deadline_ = absl::InfiniteFuture();
  std::unique_ptr<v1::JobService::Stub> stub_;
};

// Between attempts of a person's command: somebody is waiting.
inline Backoff CommandBackoff() { return Backoff(absl::Milliseconds(250), absl::Seconds(5)); }

}  // namespace tally
