#include "server/supervisor/run_observer.h"

#include "absl/strings/str_cat.h"
#include "server/job/states.h"
#include "spdlog/spdlog.h"

namespace tally {

void RunObserver::OnState(v1::JobState state, const std::string& reason) {
  absl::MutexLock lock(&mutex_);
  LogState(state, reason);
  TellState(state, reason);
}

void RunObserver::OnEvent(const std::string& level, const std::string& worker,
                          const std::string& message) {
  if (const absl::Status added = registry_->AddEvent(job_id_, level, worker, message);
      !added.ok()) {
    spdlog::error("job {}: an event is lost: {}", job_id_, std::string(added.message()));
  }
}

void RunObserver::OnProgress(const std::function<void(v1::JobStatus&)>& change) {
  registry_->UpdateProgress(job_id_, change);
}

void RunObserver::OnRoundClosed(absl::Duration duration, uint64_t contribution_bytes,
                                uint64_t aggregate_bytes) {
  metrics_->RoundClosed(duration);
  metrics_->ContributionBytes(contribution_bytes);
  metrics_->AggregateBytes(aggregate_bytes);
}

void RunObserver::OnWorkers(const std::vector<std::string>& workers) {
  absl::MutexLock lock(&mutex_);
  TellPlaces(workers);
}

void RunObserver::OnRefused(const std::string& kind) { metrics_->Refused(kind); }

bool RunObserver::TellAgain() {
  if (!untold_) return true;
  absl::MutexLock lock(&mutex_);
  if (untold_places_.has_value()) TellPlaces(std::vector<std::string>(*untold_places_));
  if (untold_state_.has_value()) TellState(untold_state_->first, std::string(untold_state_->second));
  return !SomethingUntold();
}

// Before the state is told, so that who follows the log to a job's end reads it. A cancellation is
// logged by Supervisor::Cancel, also for jobs without a run.
void RunObserver::LogState(v1::JobState state, const std::string& reason) {
  const bool changed = std::exchange(logged_, state) != state;
  if (!changed || state == v1::CANCELLED) return;
  const char* level = state == v1::FAILED ? "error" : state == v1::PAUSED ? "warning" : "info";
  const std::string name(JobStateName(state));
  OnEvent(level, "", reason.empty() ? name : absl::StrCat(name, ": ", reason));
}

// FAILED_PRECONDITION is final, here and below: the registry's state is terminal, by a person's word.
void RunObserver::TellState(v1::JobState state, const std::string& reason) {
  const absl::Status moved = registry_->Transition(job_id_, state, reason);
  untold_state_.reset();
  if (!moved.ok() && !absl::IsFailedPrecondition(moved)) {
    spdlog::error("job {}: its state is not written: {}", job_id_, std::string(moved.message()));
    untold_state_ = {state, reason};
  }
  untold_ = SomethingUntold();
}

void RunObserver::TellPlaces(const std::vector<std::string>& workers) {
  const absl::Status written = registry_->SetPlaces(job_id_, workers);
  untold_places_.reset();
  if (!written.ok() && !absl::IsFailedPrecondition(written)) {
    spdlog::error("job {}: its workers are not written: {}", job_id_,
                  std::string(written.message()));
    untold_places_ = workers;
  }
  untold_ = SomethingUntold();
}

}  // namespace tally
