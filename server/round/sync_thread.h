// The relaxed durability's grouped sync: what was appended is on the disk about a second later, and a
// disk that hangs holds up this thread alone.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/ledger/writer.h"

namespace tally {

class SyncThread {
 public:
  // `writer` outlives the thread. `failed` is called once, on the thread, when a sync fails; nothing
  // is synced after that.
  SyncThread(LedgerWriter* writer, std::function<void(const absl::Status&)> failed);
  // Syncs what is left.
  ~SyncThread();

  // Rounds were appended.
  void Request();

 private:
  void Run();
  // False: the thread is to end.
  bool WaitForWork();

  LedgerWriter* const writer_;
  const std::function<void(const absl::Status&)> failed_;
  absl::Mutex mutex_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tally
