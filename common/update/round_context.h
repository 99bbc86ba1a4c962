// A round's spec as the reductions take it.
#pragma once

#include "absl/status/statusor.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

// Of contributions to one chunk. `mask`: the chunk's part of the mask of a round that is over one; it
// must outlive the context. INVALID_ARGUMENT for a dtype that there is not.
absl::StatusOr<ChunkContext> ContributionContext(const v1::RoundSpec& spec, const Chunk& chunk,
                                                 const IndexSet* mask = nullptr);
// Of the aggregate: signs add up to values (bf16).
absl::StatusOr<ChunkContext> AggregateContext(const v1::RoundSpec& spec, const Chunk& chunk,
                                              const IndexSet* mask = nullptr);

}  // namespace tally
