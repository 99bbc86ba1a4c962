// Majority vote: D = sign(sum of signs), one bit back (Distributed Lion, Liu et al. 2024). Ties go
// by the tie stream, or give 0 with ChunkContext::zero_ties. A silent voter is no voter: a lane's
// majority is taken of those who voted in it.
#pragma once

#include <memory>
#include <vector>

#include "common/reduction/majority/majority_payload.h"
#include "common/reduction/vote_reduction.h"

namespace tally {

class Majority : public VoteReduction {
 public:
  absl::string_view name() const override { return "majority"; }
  size_t MaxAggregateBytes(uint32_t count, uint32_t voters) const override;
  absl::Status CheckAggregate(const ChunkContext& context, ByteSpan payload) const override {
    return CheckMajority(context.count, payload);
  }
  absl::StatusOr<std::vector<float>> Unpack(const ChunkContext& context,
                                            ByteSpan aggregate) const override;
  std::unique_ptr<VoteWriter> NewWriter(const ChunkContext& context, size_t voters,
                                        Bytes* aggregate) const override;
};

}  // namespace tally
