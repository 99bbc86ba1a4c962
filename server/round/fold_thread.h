// Folds a job's ledger beside its rounds: digests to compare with the workers', and snapshots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
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
  std::vector<uint64_t> blocks;  // BlockDigests of them
  bool snapshot = false;
  absl::Status status;   // of folding; the digest means nothing then
  absl::Status written;  // of writing the snapshot; `status` if it came to none
};

class FoldThread {
 public:
  // `done` is called on the thread after each request, unless the object is being destroyed: the
  // destructor waits for no more than a pass over the parameters and a snapshot at work, and not at
  // all if `done` itself drops the object. Without room for the fold's working files it tries again
  // every second, and answers UNAVAILABLE to who wants a snapshot; the digest still comes.
  FoldThread(Fold fold, LedgerReader reader, SnapshotStore store,
             std::function<void(const FoldResult&)> done);
  ~FoldThread();

  // Requests must come in the order of their rounds.
  void Request(FoldRequest request);

 private:
  class Worker;
  const std::shared_ptr<Worker> worker_;  // the thread holds it too
  std::thread thread_;
};

}  // namespace tally
