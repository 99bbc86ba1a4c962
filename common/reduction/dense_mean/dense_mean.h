// Weighted mean of values in float32, bf16 or fp16: sum(weight * value) / sum(weight), in float64 in
// the order given, each product and each sum rounded once, the quotient rounded to float32 and from
// there to the payload's type.
#pragma once

#include <memory>
#include <vector>

#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/reduction.h"

namespace tally {

class DenseMean : public Reduction {
 public:
  absl::string_view name() const override { return "dense_mean"; }
  bool counts_whole() const override { return true; }
  uint32_t max_chunk_elements() const override { return kMaxDenseElements; }
  size_t MaxContributionBytes(uint32_t count) const override { return DensePayloadBytes(count); }
  size_t MaxAggregateBytes(uint32_t count, uint32_t /*voters*/) const override {
    return DensePayloadBytes(count);
  }
  absl::Status CheckContribution(const ChunkContext& context, ByteSpan payload) const override {
    return CheckDense(context.count, context.dtype, payload);
  }
  absl::Status CheckAggregate(const ChunkContext& context, ByteSpan payload) const override {
    return CheckDense(context.count, context.dtype, payload);
  }
  std::unique_ptr<ChunkAccumulator> NewAccumulator(const ChunkContext& context) const override;
  absl::Status ReduceInto(const ChunkContext& context,
                          absl::Span<const Contribution> contributions,
                          Bytes* aggregate) const override;
  Bytes Pack(const ChunkContext& context, absl::Span<const float> values,
             uint64_t /*zero_key*/) const override {
    return WriteDense(values, context.dtype);
  }
  absl::StatusOr<std::vector<float>> Unpack(const ChunkContext& context,
                                            ByteSpan aggregate) const override;
};

}  // namespace tally
