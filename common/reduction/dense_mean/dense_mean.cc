#include "common/reduction/dense_mean/dense_mean.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

struct Addend {
  DenseView view;
  double weight;
};

absl::StatusOr<std::vector<Addend>> ParseAddends(uint32_t count,
                                                 absl::Span<const Contribution> contributions) {
  std::vector<Addend> addends;
  addends.reserve(contributions.size());
  for (const Contribution& contribution : contributions) {
    TALLY_RETURN_IF_ERROR(CheckWeight(contribution.weight));
    TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(count, contribution.payload));
    addends.push_back({view, contribution.weight});
  }
  return addends;
}

void AddScaled(const DenseView& view, double weight, size_t first, absl::Span<double> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] += weight * static_cast<double>(view.value(first + i));
  }
}

class DenseMeanAccumulator : public ChunkAccumulator {
 public:
  explicit DenseMeanAccumulator(uint32_t count) : count_(count), sums_(count) {}

  absl::Status Add(absl::Span<const Contribution> contributions) override {
    TALLY_ASSIGN_OR_RETURN(const std::vector<Addend> addends, ParseAddends(count_, contributions));
    // Block by block, so that the sums stay in the first cache while all are added.
    constexpr size_t kBlock = 2048;
    for (size_t first = 0; first < sums_.size(); first += kBlock) {
      const auto block = absl::MakeSpan(sums_).subspan(first, kBlock);
      for (const Addend& addend : addends) AddScaled(addend.view, addend.weight, first, block);
    }
    for (const Addend& addend : addends) weight_ += addend.weight;
    return absl::OkStatus();
  }

  absl::StatusOr<Bytes> Finish() override {
    if (weight_ == 0) {
      return absl::FailedPreconditionError("dense_mean: no contributions, or all weights are zero");
    }
    std::vector<float> mean(sums_.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums_[i] / weight_);
    return WriteDense(mean);
  }

  size_t memory() const override { return sizeof(*this) + sums_.capacity() * sizeof(double); }

 private:
  const uint32_t count_;
  std::vector<double> sums_;
  double weight_ = 0;
};

}  // namespace

std::unique_ptr<ChunkAccumulator> DenseMean::NewAccumulator(const ChunkContext& context) const {
  return std::make_unique<DenseMeanAccumulator>(context.count);
}

absl::StatusOr<std::vector<float>> DenseMean::Unpack(uint32_t count, ByteSpan aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(count, aggregate));
  std::vector<float> values(count);
  std::memcpy(values.data(), view.values, values.size() * sizeof(float));
  return values;
}

}  // namespace tally
