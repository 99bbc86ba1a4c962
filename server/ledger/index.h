// Where each round of a ledger lies.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace tally {

struct RecordPlace {
  std::string path;  // of the segment
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Shared by the writer, which adds a round once its record is whole and drops the oldest, and by
// readers. Thread-safe. 8 bytes a round.
class LedgerIndex {
 public:
  // An empty ledger whose first round will be `first_round`.
  explicit LedgerIndex(uint64_t first_round) : first_(first_round), next_(first_round) {}

  // The rounds that follow lie in `path`, the first of them at `offset`.
  void AddSegment(std::string path, uint64_t offset);
  // The next round, `length` bytes long, right behind the one before. Needs a segment.
  void AddRound(uint64_t length);
  // Forgets the segments that have only rounds before `round`, never the one with the last round.
  // Returns their paths, oldest first.
  std::vector<std::string> DropBefore(uint64_t round);

  // NOT_FOUND, with the rounds there are.
  absl::StatusOr<RecordPlace> Find(uint64_t round) const;
  // Bytes of these rounds' records, both ends included, as far as there are such rounds.
  uint64_t BytesOf(uint64_t first, uint64_t last) const;
  // First rounds of the segments, ascending.
  std::vector<uint64_t> SegmentStarts() const;
  uint64_t first_round() const;
  // first_round() - 1 when there is none.
  uint64_t last_round() const;

 private:
  struct Segment {
    std::string path;
    uint64_t first_round;
    std::vector<uint64_t> bounds;  // offset of each round, then the end of the last
  };
  mutable absl::Mutex mutex_;
  std::deque<Segment> segments_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally
