#include "server/round/fold_thread.h"

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tally {

// What the thread works on; outlives the FoldThread where `done` drops that.
class FoldThread::Worker {
 public:
  Worker(Fold fold, LedgerReader reader, SnapshotStore store,
         std::function<void(const FoldResult&)> done)
      : fold_(std::move(fold)),
        reader_(std::move(reader)),
        store_(std::move(store)),
        done_(std::move(done)) {}

  void Request(FoldRequest request) {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  void Run() {
    while (const std::optional<FoldRequest> request = Take()) done_(Serve(*request));
  }

 private:
  // The next request; nothing when there is to be no other.
  std::optional<FoldRequest> Take() {
    absl::MutexLock lock(&mutex_);
    const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !requests_.empty();
    };
    mutex_.Await(absl::Condition(&awake));
    if (stopping_) return std::nullopt;
    const FoldRequest request = requests_.front();
    requests_.pop_front();
    return request;
  }

  FoldResult Serve(const FoldRequest& request) {
    FoldResult result;
    result.round = request.round;
    result.snapshot = request.snapshot;
    if (fold_.round() < request.round) result.status = fold_.AdvanceTo(reader_, request.round);
    if (result.status.ok()) result.digest = fold_.digest();
    if (result.status.ok() && request.snapshot) result.written = fold_.WriteSnapshot(store_);
    return result;
  }

  Fold fold_;  // of the thread alone
  const LedgerReader reader_;
  const SnapshotStore store_;
  const std::function<void(const FoldResult&)> done_;
  absl::Mutex mutex_;
  std::deque<FoldRequest> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

FoldThread::FoldThread(Fold fold, LedgerReader reader, SnapshotStore store,
                       std::function<void(const FoldResult&)> done)
    : worker_(std::make_shared<Worker>(std::move(fold), std::move(reader), std::move(store),
                                       std::move(done))),
      thread_([worker = worker_] { worker->Run(); }) {}

FoldThread::~FoldThread() {
  worker_->Stop();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void FoldThread::Request(FoldRequest request) { worker_->Request(request); }

}  // namespace tally
