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

std::vector<std::string> LedgerIndex::DropBefore(uint64_t round) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> paths;
  const uint64_t keep = std::min(round, next_ - 1);
  while (segments_.size() > 1 && segments_[1].first_round <= keep) {
    paths.push_back(std::move(segments_.front().path));
    segments_.pop_front();
    first_ = segments_.front().first_round;
  }
  return paths;
}

absl::StatusOr<RecordPlace> LedgerIndex::Find(uint64_t round) const {
  absl::MutexLock lock(&mutex_);
  if (round < first_ || round >= next_) {
    return absl::NotFoundError(
        next_ == first_
            ? absl::StrCat("ledger: round ", round, ": the ledger is empty")
            : absl::StrCat("ledger: round ", round, ": there are ", first_, " to ", next_ - 1));
  }
  // The last segment that does not begin after the round; empty segments share a first round.
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), round,
      [](uint64_t wanted, const Segment& segment) { return wanted < segment.first_round; });
  const Segment& segment = *(after - 1);
  const uint64_t i = round - segment.first_round;
  return RecordPlace{segment.path, segment.bounds[i], segment.bounds[i + 1] - segment.bounds[i]};
}

uint64_t LedgerIndex::BytesOf(uint64_t first, uint64_t last) const {
  absl::MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const Segment& segment : segments_) {
    const uint64_t end = segment.first_round + segment.bounds.size() - 1;
    const uint64_t from = std::max(first, segment.first_round);
    const uint64_t to = last < end ? last + 1 : end;
    if (from >= to) continue;
    bytes += segment.bounds[to - segment.first_round] - segment.bounds[from - segment.first_round];
  }
  return bytes;
}

std::vector<uint64_t> LedgerIndex::SegmentStarts() const {
  absl::MutexLock lock(&mutex_);
  std::vector<uint64_t> starts;
  for (const Segment& segment : segments_) starts.push_back(segment.first_round);
  return starts;
}

uint64_t LedgerIndex::first_round() const {
  absl::MutexLock lock(&mutex_);
  return first_;
}

uint64_t LedgerIndex::last_round() const {
  absl::MutexLock lock(&mutex_);
  return next_ - 1;
}

}  // namespace tally
