#include "worker/data/bounded_queue.h"

#include <utility>

namespace tally {

bool BoundedQueue::Push(absl::StatusOr<Batch> item) {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &BoundedQueue::HasRoom));
  if (stopped_) return false;
  items_.push_back(std::move(item));
  return true;
}

absl::StatusOr<Batch> BoundedQueue::Pop() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &BoundedQueue::HasItem));
  if (stopped_) return absl::CancelledError("the batch stream was stopped");
  if (!items_.front().ok()) return items_.front().status();
  absl::StatusOr<Batch> item = std::move(items_.front());
  items_.pop_front();
  return item;
}

void BoundedQueue::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  items_.clear();
}

size_t BoundedQueue::size() const {
  absl::MutexLock lock(&mutex_);
  return items_.size();
}

}  // namespace tally
