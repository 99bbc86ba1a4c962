// Folds a job's ledger beside its rounds: digests to compare with the workers', and snapshots.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/ledger/fold.h"
#include "server/ledger/reader.h"
#include "server/ledger/snapshot.h"

namespace tally {

struct FoldRequest {
  uint64_t round = 0;     // in the ledger by now
  bool snapshot = false;  // write one
};

struct FoldResult {
  uint64_t round = 0;
  uint64_t digest = 0;  // of the parameters after `round`
  bool snapshot = false;
  absl::Status status;  // of folding or writing; the digest means nothing then
};

class FoldThread {
 public:
  // `done` is called on the thread after each request. The destructor waits for the one at work.
  FoldThread(Fold fold, LedgerReader reader, SnapshotStore store,
             std::function<void(const FoldResult&)> done);
  ~FoldThread();

  // Requests must come in the order of their rounds.
  void Request(FoldRequest request);

 private:
  void Run();
  FoldResult Serve(const FoldRequest& request);

  Fold fold_;  // of the thread alone
  const LedgerReader reader_;
  const SnapshotStore store_;
  const std::function<void(const FoldResult&)> done_;
  absl::Mutex mutex_;
  std::deque<FoldRequest> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tally
