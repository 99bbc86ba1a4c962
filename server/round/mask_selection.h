// From scores to a mask: what a mask round makes of its contributions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"

namespace tally {

// For each chunk of the grid its encoded index set: all of the last block (the head, which is always
// trained) and of the others the elements with the largest scores, over all tensors together, exactly
// `size` in all. Of equal ones those with the lower index. `scores`: grid.elements(), none of them NaN;
// `size` is from the head's elements to all of them (RoundPlanner). Memory beside: 512 KiB and the sets.
// Sung et al. 2021, arXiv 2111.09839, section 3.
std::vector<Bytes> SelectMask(const ChunkGrid& grid, absl::Span<const float> scores, uint64_t size);

// The control: every element equally likely. The same for the same key (RandomPurpose::kTie).
std::vector<float> RandomScores(uint64_t count, uint64_t key);

}  // namespace tally
