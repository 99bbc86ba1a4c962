#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

void Show(Session& session, const v1::JobStatus& job) {
  session.out() << (session.options().json ? JsonLine(ToJson(job)) : StateText(job)) << std::endl;
}

absl::Status Pause(Session& session, const v1::PauseJobRequest& request) {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus job,
                         session.Call(&v1::JobService::Stub::PauseJob, request));
  Show(session, job);
  return absl::OkStatus();
}

absl::Status Resume(Session& session, const v1::ResumeJobRequest& request) {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus job,
                         session.Call(&v1::JobService::Stub::ResumeJob, request));
  Show(session, job);
  return absl::OkStatus();
}

}  // namespace

void AddPause(CommandLine& line) {
  auto request = std::make_shared<v1::PauseJobRequest>();
  Session& session = line.session;
  CLI::App* command = AddCommand(
      line, "pause", "Let a job's open round end and open no other, until `tally resume`", kAskTime,
      [&session, request] { return Pause(session, *request); });
  AddJobArgument(*command, *request->mutable_job_id());
  command->add_option("--reason", *request->mutable_reason(), "Why, for the job's status and log");
}

void AddResume(CommandLine& line) {
  auto request = std::make_shared<v1::ResumeJobRequest>();
  Session& session = line.session;
  CLI::App* command = AddCommand(line, "resume", "Let a job that was paused go on", kAskTime,
                                 [&session, request] { return Resume(session, *request); });
  AddJobArgument(*command, *request->mutable_job_id());
}

}  // namespace tally
