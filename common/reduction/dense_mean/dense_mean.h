// Weighted mean of float32 values: sum(weight * value) / sum(weight), in float64 in the order
// given, each product and each sum rounded once, the quotient rounded to float32.
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
  absl::Status CheckContribution(uint32_t count, ByteSpan payload) const override {
    return CheckDense(count, payload);
  }
  absl::Status CheckAggregate(uint32_t count, ByteSpan payload) const override {
    return CheckDense(count, payload);
  }
  std::unique_ptr<ChunkAccumulator> NewAccumulator(const ChunkContext& context) const override;
  Bytes Pack(absl::Span<const float> values, uint64_t /*first_lane*/,
             uint64_t /*zero_key*/) const override {
    return WriteDense(values);
  }
  absl::StatusOr<std::vector<float>> Unpack(uint32_t count, ByteSpan aggregate) const override;
};

}  // namespace tally
