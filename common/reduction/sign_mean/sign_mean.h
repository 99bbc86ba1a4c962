// Mean of signs: D = (1/N) sum of signs, as the count of plus votes, ceil(log2(N+1)) bits back
// (Distributed Lion's average, Liu et al. 2024). A silent voter is no voter: a lane's mean is
// taken of those who voted in it. There are no ties to break.
#pragma once

#include <memory>
#include <vector>

#include "common/reduction/sign_mean/sign_mean_payload.h"
#include "common/reduction/vote_reduction.h"

namespace tally {

class SignMean : public VoteReduction {
 public:
  absl::string_view name() const override { return "sign_mean"; }
  size_t MaxAggregateBytes(uint32_t count, uint32_t voters) const override {
    return SignMeanPayloadBytes(count, voters, true);
  }
  absl::Status CheckAggregate(const ChunkContext& context, ByteSpan payload) const override {
    return CheckSignMean(context.count, payload);
  }
  absl::StatusOr<std::vector<float>> Unpack(const ChunkContext& context,
                                            ByteSpan aggregate) const override;
  std::unique_ptr<VoteWriter> NewWriter(const ChunkContext& context, size_t voters,
                                        Bytes* aggregate) const override;
};

}  // namespace tally
