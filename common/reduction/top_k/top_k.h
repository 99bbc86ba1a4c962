// The k largest of many scores, exactly k also with ties, of which those with the lowest indices are
// taken: over all tensors together, as FISH Mask needs it (Sung et al. 2021, arXiv 2111.09839). No
// sort and no copy of the scores: two counting passes, 512 KiB of counters.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tally {

// What is selected: scores above a bound, and the first `ties` of those equal to it.
class TopKCut {
 public:
  // k up to scores.size(); the scores are not NaN. 0 and -0 are two numbers here, the latter smaller.
  static TopKCut Find(absl::Span<const float> scores, uint64_t k);
  // Of the scores in their order, a part at a time: appends the indices in `part` of those selected.
  void Select(absl::Span<const float> part, std::vector<uint32_t>* indices);

 private:
  uint32_t bound_ = 0xffffffff;  // OrderOf the smallest one selected
  uint64_t ties_ = 0;            // equal to it, not yet selected
};

}  // namespace tally
