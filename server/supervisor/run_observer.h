// Carries a run's news to the registry, the metrics and the log.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/job/registry.h"
#include "server/round/job_observer.h"
#include "server/status/metrics.h"

namespace tally {

class RunObserver final : public JobObserver {
 public:
  // Both outlive the observer.
  RunObserver(std::string job_id, JobRegistry* registry, Metrics* metrics)
      : job_id_(std::move(job_id)), registry_(registry), metrics_(metrics) {}

  void OnState(v1::JobState state, const std::string& reason) override;
  void OnEvent(const std::string& level, const std::string& worker,
               const std::string& message) override;
  void OnProgress(const std::function<void(v1::JobStatus&)>& change) override;
  void OnRoundClosed(absl::Duration duration, uint64_t contribution_bytes,
                     uint64_t aggregate_bytes) override;
  void OnWorkers(const std::vector<std::string>& workers) override;
  void OnRefused(const std::string& kind) override;

  // False while the registry could not write the run's state or places; to be called now and then.
  bool TellAgain();

 private:
  void LogState(v1::JobState state, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellState(v1::JobState state, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellPlaces(const std::vector<std::string>& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool SomethingUntold() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return untold_state_.has_value() || untold_places_.has_value();
  }

  const std::string job_id_;
  JobRegistry* const registry_;
  Metrics* const metrics_;
  std::atomic<bool> untold_{false};  // SomethingUntold(), for who must not wait for a write
  absl::Mutex mutex_;                // taken after the run's lock, before the registry's
  std::optional<std::pair<v1::JobState, std::string>> untold_state_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::vector<std::string>> untold_places_ ABSL_GUARDED_BY(mutex_);
  v1::JobState logged_ ABSL_GUARDED_BY(mutex_) = v1::JOB_STATE_UNSPECIFIED;
};

}  // namespace tally
