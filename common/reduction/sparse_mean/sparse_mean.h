// Weighted mean of the values of some elements: dense_mean's arithmetic for each of them. Over the
// round's mask everybody has all of its elements. With sets of their own an element's sum is divided
// by the weights of those who have it; the aggregate is over all that anybody has.
//
// Signs (one bit and a common magnitude) average to bf16.
#pragma once

#include <memory>
#include <vector>

#include "common/reduction/reduction.h"
#include "common/reduction/sparse_mean/sparse_payload.h"

namespace tally {

class SparseMean : public Reduction {
 public:
  absl::string_view name() const override { return "sparse_mean"; }
  bool counts_whole() const override { return true; }
  uint32_t max_chunk_elements() const override { return kMaxSparseElements; }
  size_t MaxContributionBytes(uint32_t count) const override { return MaxSparseBytes(count); }
  size_t MaxAggregateBytes(uint32_t count, uint32_t /*voters*/) const override {
    return MaxSparseBytes(count);
  }
  absl::Status CheckContribution(const ChunkContext& context, ByteSpan payload) const override {
    return CheckSparse(context, payload);
  }
  absl::Status CheckAggregate(const ChunkContext& context, ByteSpan payload) const override {
    return CheckSparse(context, payload);
  }
  std::unique_ptr<ChunkAccumulator> NewAccumulator(const ChunkContext& context) const override;
  absl::Status ReduceInto(const ChunkContext& context,
                          absl::Span<const Contribution> contributions,
                          Bytes* aggregate) const override;
  Bytes Pack(const ChunkContext& context, absl::Span<const float> values,
             uint64_t zero_key) const override;
  absl::StatusOr<std::vector<float>> Unpack(const ChunkContext& context,
                                            ByteSpan aggregate) const override;
};

}  // namespace tally
