#pragma once

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/example.h"

namespace tally {

// Between one producer and one consumer. Any thread may stop it.
class BoundedQueue {
 public:
  // `capacity` is positive.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Waits for room. False once stopped; the item is lost then.
  bool Push(absl::StatusOr<Batch> item);
  // Waits for an item. An error stays at the head and is returned for ever; CANCELLED once stopped.
  absl::StatusOr<Batch> Pop();
  void Stop();
  size_t size() const;

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || items_.size() < capacity_;
  }
  bool HasItem() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !items_.empty();
  }

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<absl::StatusOr<Batch>> items_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tally
