// One listener of a job: delivers in order and one at a time, with no lock of the registry held.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

using StatusCallback = std::function<void(const v1::JobStatus&)>;

enum class Interest {
  kStatus,           // changes of the status
  kStatusAndEvents,  // and lines added to the job's log
};

class Subscription {
 public:
  Subscription(uint64_t job, Interest interest, StatusCallback callback)
      : job_(job), interest_(interest), callback_(std::move(callback)) {}

  uint64_t job() const { return job_; }
  Interest interest() const { return interest_; }

  // Nothing if something as new has been delivered, or after Close.
  void Deliver(const v1::JobStatus& status, uint64_t version);
  // Waits for a callback in progress, unless called from it.
  void Close();

 private:
  const uint64_t job_;
  const Interest interest_;

  absl::Mutex mutex_;
  const StatusCallback callback_;
  uint64_t delivered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id runner_ ABSL_GUARDED_BY(mutex_);  // while running_
};

}  // namespace tally
