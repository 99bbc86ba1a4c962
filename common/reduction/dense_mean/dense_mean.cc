#include "common/reduction/dense_mean/dense_mean.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"
#include "common/reduction/value_codec.h"

namespace tally {
namespace {

absl::StatusOr<std::vector<WeightedValues>> ParseAddends(
    const ChunkContext& context, absl::Span<const Contribution> contributions) {
  std::vector<WeightedValues> addends;
  addends.reserve(contributions.size());
  for (const Contribution& contribution : contributions) {
    TALLY_RETURN_IF_ERROR(CheckWeight(contribution.weight));
    TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(context.count, contribution.payload));
    if (view.dtype != context.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("dense payload: expected values in ",
                                                     ValueDtypeName(context.dtype), ", found ",
                                                     ValueDtypeName(view.dtype)));
    }
    addends.push_back({view.values, contribution.weight});
  }
  return addends;
}

absl::Status NothingToDivideBy() {
  return absl::FailedPreconditionError("dense_mean: no contributions, or all weights are zero");
}

// Takes the head of an aggregate; returns where its values go.
unsigned char* BeginAggregate(const ChunkContext& context, Bytes* aggregate) {
  aggregate->resize(DensePayloadBytes(context.count, context.dtype));
  std::fill_n(aggregate->begin(), kHeadBytes, static_cast<unsigned char>(0));
  (*aggregate)[0] = static_cast<unsigned char>(context.dtype);
  return aggregate->data() + kHeadBytes;
}

class DenseMeanAccumulator : public ChunkAccumulator {
 public:
  explicit DenseMeanAccumulator(const ChunkContext& context)
      : context_(context), sums_(context.count) {}

  absl::Status Add(absl::Span<const Contribution> contributions) override {
    TALLY_ASSIGN_OR_RETURN(const std::vector<WeightedValues> addends,
                           ParseAddends(context_, contributions));
    const size_t bytes = BytesOfValues(context_.dtype, 1);
    // Block by block, so that the sums stay in the first cache while all are added.
    constexpr size_t kBlock = 2048;
    for (size_t first = 0; first < sums_.size(); first += kBlock) {
      const auto block = absl::MakeSpan(sums_).subspan(first, kBlock);
      for (const WeightedValues& addend : addends) {
        AddWeighted(context_.dtype, {addend.values + first * bytes, addend.weight}, block);
      }
    }
    for (const WeightedValues& addend : addends) weight_ += addend.weight;
    return absl::OkStatus();
  }

  absl::StatusOr<Bytes> Finish() override {
    if (weight_ == 0) return NothingToDivideBy();
    Bytes aggregate;
    WriteMean(context_.dtype, sums_, weight_, BeginAggregate(context_, &aggregate));
    return aggregate;
  }

  size_t memory() const override { return sizeof(*this) + sums_.capacity() * sizeof(double); }

 private:
  const ChunkContext context_;
  std::vector<double> sums_;
  double weight_ = 0;
};

}  // namespace

std::unique_ptr<ChunkAccumulator> DenseMean::NewAccumulator(const ChunkContext& context) const {
  return std::make_unique<DenseMeanAccumulator>(context);
}

absl::Status DenseMean::ReduceInto(const ChunkContext& context,
                                   absl::Span<const Contribution> contributions,
                                   Bytes* aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const std::vector<WeightedValues> addends,
                         ParseAddends(context, contributions));
  double total = 0;
  for (const WeightedValues& addend : addends) total += addend.weight;
  if (total == 0) return NothingToDivideBy();
  MeanOf(context.dtype, addends, context.count, total, BeginAggregate(context, aggregate));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> DenseMean::Unpack(const ChunkContext& context,
                                                     ByteSpan aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const DenseView view, ParseDense(context.count, aggregate));
  std::vector<float> values(context.count);
  DecodeValues(view.dtype, view.values, absl::MakeSpan(values));
  return values;
}

}  // namespace tally
