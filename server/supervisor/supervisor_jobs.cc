// The supervisor's side of jobs: what people say about them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/spec/check.h"
#include "common/spec/defaults.h"
#include "server/job/states.h"
#include "server/supervisor/job_folder.h"
#include "server/supervisor/supervisor.h"

namespace tally {

absl::StatusOr<JobRegistry::Submitted> Supervisor::Submit(const v1::JobSpec& given,
                                                          const std::string& token) {
  v1::JobSpec spec = WithDefaults(given);
  TALLY_RETURN_IF_ERROR(CheckJobSpec(spec));
  if (!spec.model().base_digest().empty()) {
    TALLY_ASSIGN_OR_RETURN(const std::string base, models_->Find(spec.model().base_digest()));
    // Every worker builds the model from the job alone.
    if (spec.model().config_json().empty()) {
      TALLY_ASSIGN_OR_RETURN(*spec.mutable_model()->mutable_config_json(),
                             ReadFile(absl::StrCat(base, "/config.json")));
    }
  }
  TALLY_ASSIGN_OR_RETURN(const JobRegistry::Submitted submitted, registry_->Submit(spec, token));
  if (submitted.created) {
    metrics_->JobSubmitted();
    Schedule();
  }
  return submitted;
}

absl::StatusOr<v1::JobStatus> Supervisor::Cancel(const std::string& job_id,
                                                 const std::string& reason) {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus status, registry_->Get(job_id));
  if (!IsTerminal(status.state())) {
    TALLY_RETURN_IF_ERROR(
        registry_->AddEvent(job_id, "info", "", absl::StrCat("CANCELLED: ", reason)));
  }
  TALLY_RETURN_IF_ERROR(registry_->Transition(job_id, v1::CANCELLED, reason));
  if (const absl::StatusOr<std::shared_ptr<JobRun>> run = FindRun(job_id); run.ok()) {
    (*run)->Cancel(reason);
  }
  return registry_->Get(job_id);
}

absl::StatusOr<v1::JobStatus> Supervisor::Pause(const std::string& job_id,
                                                const std::string& reason) {
  bool news = false;
  {
    // Meanwhile it does not leave the queue: it is in there, held, or has its run.
    absl::MutexLock scheduling(&scheduling_);
    TALLY_ASSIGN_OR_RETURN(news, registry_->Hold(job_id, reason));
  }
  if (news) {
    (void)registry_->AddEvent(job_id, "info", "",
                              absl::StrCat("held by a person", reason.empty() ? "" : ": ", reason));
    if (const auto run = FindRun(job_id); run.ok()) (*run)->Hold(reason);
  }
  return registry_->Get(job_id);
}

absl::StatusOr<v1::JobStatus> Supervisor::Resume(const std::string& job_id) {
  TALLY_ASSIGN_OR_RETURN(const bool news, registry_->Unhold(job_id));
  if (news) {
    (void)registry_->AddEvent(job_id, "info", "", "no longer held");
    if (const auto run = FindRun(job_id); run.ok()) (*run)->Unhold();
    Schedule();
  }
  return registry_->Get(job_id);
}

absl::StatusOr<std::string> Supervisor::ResultFolder(const std::string& job_id) const {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus status, registry_->Get(job_id));
  if (status.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " is ", std::string(JobStateName(status.state())),
                     ": only a job that SUCCEEDED has a result"));
  }
  return ResultIn(job_id, FolderOf(job_id));
}

}  // namespace tally
