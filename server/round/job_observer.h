// What a job's run tells the rest of the server. Called with the run's lock held, so that the
// order of calls is the order of events; implementations must not call back into the run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void OnState(v1::JobState state, const std::string& reason) = 0;
  // `level` is info, warning or error; `worker` empty for the server itself.
  virtual void OnEvent(const std::string& level, const std::string& worker,
                       const std::string& message) = 0;
  virtual void OnProgress(const std::function<void(v1::JobStatus&)>& change) = 0;
  // Payload bytes of the round's contributions in all, and of the aggregate once.
  virtual void OnRoundClosed(absl::Duration duration, uint64_t contribution_bytes,
                             uint64_t aggregate_bytes) = 0;
  // Who has which place now, by index, "" for a vacant one.
  virtual void OnWorkers(const std::vector<std::string>& workers) = 0;
  // late, damaged or abstained.
  virtual void OnRefused(const std::string& kind) = 0;
};

}  // namespace tally
