#include "server/job/subscription.h"

namespace tally {

void Subscription::Deliver(const v1::JobStatus& status, uint64_t version) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](bool* running) { return !*running; }, &running_));
    if (closed_ || version <= delivered_) return;
    delivered_ = version;
    running_ = true;
    runner_ = std::this_thread::get_id();
  }
  callback_(status);
  absl::MutexLock lock(&mutex_);
  running_ = false;
}

void Subscription::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  if (running_ && runner_ == std::this_thread::get_id()) return;
  mutex_.Await(absl::Condition(
      +[](bool* running) { return !*running; }, &running_));
}

}  // namespace tally
