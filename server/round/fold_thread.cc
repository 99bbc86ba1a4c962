#include "server/round/fold_thread.h"

#include <utility>

namespace tally {

FoldThread::FoldThread(Fold fold, LedgerReader reader, SnapshotStore store,
                       std::function<void(const FoldResult&)> done)
    : fold_(std::move(fold)),
      reader_(std::move(reader)),
      store_(std::move(store)),
      done_(std::move(done)),
      thread_([this] { Run(); }) {}

FoldThread::~FoldThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void FoldThread::Request(FoldRequest request) {
  absl::MutexLock lock(&mutex_);
  requests_.push_back(request);
}

void FoldThread::Run() {
  for (;;) {
    FoldRequest request;
    {
      absl::MutexLock lock(&mutex_);
      const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !requests_.empty();
      };
      mutex_.Await(absl::Condition(&awake));
      if (stopping_) return;
      request = requests_.front();
      requests_.pop_front();
    }
    done_(Serve(request));
  }
}

FoldResult FoldThread::Serve(const FoldRequest& request) {
  FoldResult result{request.round, 0, request.snapshot, absl::OkStatus()};
  if (fold_.round() < request.round) result.status = fold_.AdvanceTo(reader_, request.round);
  if (result.status.ok()) result.digest = fold_.digest();
  if (result.status.ok() && request.snapshot) result.status = fold_.WriteSnapshot(store_);
  return result;
}

}  // namespace tally
