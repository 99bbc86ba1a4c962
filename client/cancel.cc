#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::Status Cancel(Session& session, const v1::CancelJobRequest& request) {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus job,
                         session.Call(&v1::JobService::Stub::CancelJob, request));
  if (session.options().json) {
    session.out() << JsonLine(ToJson(job)) << std::endl;
  } else {
    session.out() << StateText(job) << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace

void AddCancel(CommandLine& line) {
  auto job_id = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  Session& session = line.session;
  CLI::App* command =
      AddCommand(line, "cancel", "Cancel a job", kAskTime, [&session, job_id, reason] {
        v1::CancelJobRequest request;
        request.set_job_id(*job_id);
        request.set_reason(*reason);
        return Cancel(session, request);
      });
  AddJobArgument(*command, *job_id);
  command->add_option("--reason", *reason, "Why, for the job's status and log");
}

}  // namespace tally
