#include "server/ledger/index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tally {

void LedgerIndex::AddSegment(std::string path, uint64_t offset) {
  absl::MutexLock lock(&mutex_);
  segments_.push_back({std::move(path), next_, {offset}});
}

void LedgerIndex::AddRound(uint64_t length) {
  absl::MutexLock lock(&mutex_);
  std::vector<uint64_t>& bounds = segments_.back().bounds;
  bounds.push_back(bounds.back() + length);
  ++next_;
}

absl::StatusOr<RecordPlace> LedgerIndex::Find(uint64_t round) const {
  absl::MutexLock lock(&mutex_);
  if (round < first_round_ || round >= next_) {
    return absl::NotFoundError(
        next_ == first_round_
            ? absl::StrCat("ledger: round ", round, ": the ledger is empty")
            : absl::StrCat("ledger: round ", round, ": there are ", first_round_, " to ",
                           next_ - 1));
  }
  // The last segment that does not begin after the round; empty segments share a first round.
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), round,
      [](uint64_t wanted, const Segment& segment) { return wanted < segment.first_round; });
  const Segment& segment = *(after - 1);
  const uint64_t i = round - segment.first_round;
  return RecordPlace{segment.path, segment.bounds[i], segment.bounds[i + 1] - segment.bounds[i]};
}

uint64_t LedgerIndex::last_round() const {
  absl::MutexLock lock(&mutex_);
  return next_ - 1;
}

}  // namespace tally
