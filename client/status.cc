#include "common/base/status.h"

#include "client/commands.h"
#include "client/job_text.h"
#include "client/json.h"

namespace tally {
namespace {

absl::Status Status(Session& session, const std::string& job_id) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus job,
                         session.Call(&v1::JobService::Stub::GetJob, request));
  session.out() << (session.options().json ? JsonLine(ToJson(job)) + "\n"
                                           : JobText(job, absl::LocalTimeZone()))
                << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CommandLine& line) {
  auto job_id = std::make_shared<std::string>();
  Session& session = line.session;
  CLI::App* command = AddCommand(line, "status", "Show a job and its workers", kAskTime,
                                 [&session, job_id] { return Status(session, *job_id); });
  AddJobArgument(*command, *job_id);
}

}  // namespace tally
