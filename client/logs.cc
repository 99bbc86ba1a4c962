#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

std::string Line(const v1::JobEvent& event) {
  const std::string worker = event.worker().empty() ? "" : event.worker() + ": ";
  return Printable(absl::StrFormat("%s %-7s %s%s", ShortTime(event.time(), absl::LocalTimeZone()),
                                   absl::AsciiStrToUpper(event.level()), worker, event.message()));
}

// One stream of events; those up to `last` were printed before. `last` follows.
absl::Status ReadOnce(Session& session, const v1::GetLogsRequest& request, Backoff& backoff,
                      uint64_t& last, bool& any) {
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  const auto reader = session.stub().GetLogs(&context, request);
  v1::JobEvent event;
  while (reader->Read(&event)) {
    backoff.Reset();
    if (any && event.sequence() <= last) continue;
    session.out() << (session.options().json ? JsonLine(ToJson(event)) : Line(event)) << std::endl;
    last = event.sequence();
    any = true;
  }
  return session.ServerError(reader->Finish());
}

absl::Status Logs(Session& session, const v1::GetLogsRequest& request) {
  Backoff backoff = CommandBackoff();
  uint64_t last = 0;
  bool any = false;
  while (true) {
    const absl::Status status = ReadOnce(session, request, backoff, last, any);
    // A log that is followed goes on over a restart of the server.
    if (!absl::IsUnavailable(status) || !request.follow() || !any) return status;
    if (session.Expired()) return session.TimeIsOver();
    session.err() << "connection lost, trying again: " << status.message() << std::endl;
    if (!session.interrupt().WaitFor(backoff.Next())) return absl::CancelledError("interrupted");
  }
}

}  // namespace

void AddLogs(CommandLine& line) {
  auto request = std::make_shared<v1::GetLogsRequest>();
  auto job_id = std::make_shared<std::string>();
  auto follow = std::make_shared<bool>(false);
  Session& session = line.session;
  CLI::App* command = AddCommand(line, "logs", "Print what happened in a job",
                                 absl::InfiniteDuration(), [&session, request, job_id, follow] {
                                   request->set_job_id(*job_id);
                                   request->set_follow(*follow);
                                   return Logs(session, *request);
                                 });
  AddJobArgument(*command, *job_id);
  command->add_flag("-f,--follow", *follow, "Go on until the job ends");
}

}  // namespace tally
