// Appending rounds to a ledger.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/file.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/index.h"
#include "server/ledger/reader.h"
#include "server/ledger/scan.h"

namespace tally {

struct LedgerOptions {
  uint64_t segment_bytes = uint64_t{256} << 20;  // a segment this long or longer gets no more rounds
  uint64_t first_round = 1;                      // of an empty ledger
  uint64_t first_history = 0;                    // of an empty ledger: after the round before
};

// One writer a folder: the caller holds the state directory's lock. Thread-safe; Append and Sync
// may run at once.
class LedgerWriter {
 public:
  // Makes the folder if it is absent. A torn tail is cut off and told by cut_bytes().
  // Errors: ScanLedger.
  static absl::StatusOr<std::unique_ptr<LedgerWriter>> Open(const std::string& folder,
                                                            uint64_t layout_digest,
                                                            const LedgerOptions& options = {});

  // Writes the round; readers see it when this returns. It survives a crash of the process at once,
  // one of the machine after Sync(). Payloads are written from where they lie.
  //
  // FAILED_PRECONDITION unless it is round last_round() + 1 and its history is
  // RoundHistory(last_history(), closed); INVALID_ARGUMENT if spec, closed and aggregates do not
  // belong together. After a failed write (RESOURCE_EXHAUSTED: no space) the file
  // is cut back to the last good record, and a later Append may succeed.
  absl::Status Append(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                      absl::Span<const ByteSpan> aggregates);

  // Waits until all rounds appended before the call are on the disk. After an error nothing is known
  // of the disk: it is repeated by every later call, Append included.
  absl::Status Sync();

  // Removes the segments that have only rounds before `round`; never the one with the last round.
  // Readers get NOT_FOUND for what is gone. After an error the segments left over are removed by a
  // later call.
  absl::Status DropBefore(uint64_t round) ABSL_LOCKS_EXCLUDED(dropping_);

  uint64_t first_round() const { return index_->first_round(); }
  uint64_t last_round() const { return index_->last_round(); }
  // RoundClosed.history of last_round().
  uint64_t last_history() const;
  // First rounds of the segments, ascending.
  std::vector<uint64_t> SegmentStarts() const { return index_->SegmentStarts(); }
  // Known to be on the disk.
  uint64_t synced_round() const;
  // Follows this writer; may outlive it.
  LedgerReader reader() const { return LedgerReader(index_); }
  // What Open() cut off, and why; 0 and empty for a clean ledger.
  uint64_t cut_bytes() const { return cut_bytes_; }
  const std::string& cut_reason() const { return cut_reason_; }

 private:
  LedgerWriter(std::string folder, uint64_t layout_digest, const LedgerOptions& options,
               std::shared_ptr<LedgerIndex> index)
      : folder_(std::move(folder)), layout_digest_(layout_digest), options_(options),
        index_(std::move(index)), last_history_(options.first_history) {}
  absl::Status Resume(const LedgerScan& scan);
  absl::Status OpenSegment(const std::string& path, uint64_t good_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status StartSegment(uint64_t first_round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFollows(const v1::RoundSpec& spec, const v1::RoundClosed& closed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CutBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const uint64_t layout_digest_;
  const LedgerOptions options_;
  const std::shared_ptr<LedgerIndex> index_;
  uint64_t cut_bytes_ = 0;
  std::string cut_reason_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const FileDescriptor> file_ ABSL_GUARDED_BY(mutex_);  // null before the first round
  std::string path_ ABSL_GUARDED_BY(mutex_);
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;      // of the last good record
  bool dirty_end_ ABSL_GUARDED_BY(mutex_) = false;  // bytes behind end_ are still to be cut
  uint64_t synced_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_history_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);   // a sync that failed

  absl::Mutex dropping_;
  std::deque<std::string> dropped_ ABSL_GUARDED_BY(dropping_);  // segments still to be removed
};

}  // namespace tally
