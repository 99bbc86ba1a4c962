#include "server/round/fold_thread.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

}  // namespace

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
    while (std::optional<FoldRequest> request = Take()) {
      const absl::Status status = AdvanceFor(*request);
      if (absl::IsCancelled(status)) return;
      done_(Answer(*request, status));
    }
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

  // Waits up to `patience` for it.
  bool Stopping(absl::Duration patience = absl::ZeroDuration()) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&stopping_), patience);
  }

  // CANCELLED when there is to be no answer any more.
  absl::Status AdvanceFor(FoldRequest& request) {
    while (fold_.round() < request.round) {
      if (Stopping()) return absl::CancelledError("the fold is being stopped");
      const absl::Status status = fold_.AdvanceOnce(reader_, request.round);
      if (absl::IsUnavailable(status)) {
        RefuseSnapshots(request, status);
        (void)Stopping(kRetryInterval);
      } else {
        TALLY_RETURN_IF_ERROR(status);
      }
    }
    return absl::OkStatus();
  }

  // Answers those who wait for a snapshot; their digests still come.
  void RefuseSnapshots(FoldRequest& request, const absl::Status& status) {
    std::vector<FoldRequest> refused;
    const auto refuse = [&](FoldRequest& wanted) {
      if (std::exchange(wanted.snapshot, false)) refused.push_back({wanted.round, true});
    };
    refuse(request);
    {
      absl::MutexLock lock(&mutex_);
      std::for_each(requests_.begin(), requests_.end(), refuse);
    }
    for (const FoldRequest& wanted : refused) {
      if (!Stopping()) done_(Answer(wanted, status));
    }
  }

  FoldResult Answer(const FoldRequest& request, const absl::Status& status) const {
    FoldResult result;
    result.round = request.round;
    result.snapshot = request.snapshot;
    result.status = status;
    if (request.snapshot) result.written = status;
    if (!status.ok()) return result;
    result.digest = fold_.digest();
    result.blocks = fold_.block_digests();
    if (request.snapshot) result.written = fold_.WriteSnapshot(store_);
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
