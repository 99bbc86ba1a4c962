#include "server/round/sync_thread.h"

#include <utility>

#include "absl/time/time.h"

namespace tally {
namespace {

// Rounds of so long share one sync.
constexpr absl::Duration kInterval = absl::Seconds(1);

}  // namespace

SyncThread::SyncThread(LedgerWriter* writer, std::function<void(const absl::Status&)> failed)
    : writer_(writer), failed_(std::move(failed)), thread_([this] { Run(); }) {}

SyncThread::~SyncThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void SyncThread::Request() {
  absl::MutexLock lock(&mutex_);
  requested_ = true;
}

bool SyncThread::WaitForWork() {
  absl::MutexLock lock(&mutex_);
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || requested_;
  };
  mutex_.Await(absl::Condition(&awake));
  mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kInterval);
  return std::exchange(requested_, false);
}

void SyncThread::Run() {
  while (WaitForWork()) {
    if (const absl::Status synced = writer_->Sync(); !synced.ok()) return failed_(synced);
  }
}

}  // namespace tally
