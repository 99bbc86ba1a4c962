#include "common/reduction/top_k/top_k.h"

#include <bit>
#include <cstddef>

namespace tally {
namespace {

// Grows with the score, as an unsigned number.
uint32_t OrderOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  return bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
}

constexpr size_t kBuckets = size_t{1} << 16;

// From the largest bucket down: the one in which the `rank`-th largest lies (from 1), and its rank there.
struct Place {
  uint32_t bucket;
  uint64_t rank;
};

Place Locate(const std::vector<uint64_t>& counts, uint64_t rank) {
  size_t bucket = kBuckets - 1;
  while (counts[bucket] < rank) rank -= counts[bucket--];
  return {static_cast<uint32_t>(bucket), rank};
}

}  // namespace

TopKCut TopKCut::Find(absl::Span<const float> scores, uint64_t k) {
  TopKCut cut;
  if (k == 0) return cut;
  std::vector<uint64_t> counts(kBuckets);
  for (const float score : scores) ++counts[OrderOf(score) >> 16];
  const Place high = Locate(counts, k);
  counts.assign(kBuckets, 0);
  for (const float score : scores) {
    const uint32_t order = OrderOf(score);
    if (order >> 16 == high.bucket) ++counts[order & 0xffff];
  }
  const Place low = Locate(counts, high.rank);
  cut.bound_ = high.bucket << 16 | low.bucket;
  cut.ties_ = low.rank;
  return cut;
}

void TopKCut::Select(absl::Span<const float> part, std::vector<uint32_t>* indices) {
  for (size_t i = 0; i < part.size(); ++i) {
    const uint32_t order = OrderOf(part[i]);
    if (order < bound_ || (order == bound_ && ties_ == 0)) continue;
    if (order == bound_) --ties_;
    indices->push_back(static_cast<uint32_t>(i));
  }
}

}  // namespace tally
