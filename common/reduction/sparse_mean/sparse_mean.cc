#include "common/reduction/sparse_mean/sparse_mean.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"
#include "common/reduction/value_codec.h"

namespace tally {
namespace {

// Elements whose sums stay in the first cache while all contributions are added.
constexpr size_t kBlock = 2048;

struct Addend {
  SparseView view;
  double weight = 1;
};

absl::StatusOr<std::vector<Addend>> ParseAddends(const ChunkContext& context,
                                                 absl::Span<const Contribution> contributions) {
  std::vector<Addend> addends;
  addends.reserve(contributions.size());
  for (const Contribution& contribution : contributions) {
    TALLY_RETURN_IF_ERROR(CheckWeight(contribution.weight));
    TALLY_ASSIGN_OR_RETURN(SparseView view, ParseSparse(context, contribution.payload));
    addends.push_back({std::move(view), contribution.weight});
  }
  return addends;
}

// Signs add up to values.
ChunkContext AggregateOf(ChunkContext context) {
  if (context.dtype == ValueDtype::kSign) context.dtype = ValueDtype::kBfloat16;
  return context;
}

absl::Status NothingToDivideBy() {
  return absl::FailedPreconditionError("sparse_mean: no contributions, or all weights are zero");
}

// To the sums of the addend's values from `first` on.
void AddBlock(const Addend& addend, size_t first, absl::Span<double> sums) {
  const SparseView& view = addend.view;
  if (view.dtype != ValueDtype::kSign) {
    AddWeighted(view.dtype, {view.values + BytesOfValues(view.dtype, first), addend.weight}, sums);
    return;
  }
  float values[kBlock];
  view.Decode(first, absl::MakeSpan(values, sums.size()));
  AddWeighted(ValueDtype::kFloat32,
              {reinterpret_cast<const unsigned char*>(values), addend.weight}, sums);
}

// Over the round's mask.
class MaskedAccumulator : public ChunkAccumulator {
 public:
  explicit MaskedAccumulator(const ChunkContext& context)
      : context_(context), sums_(context.mask->indices.size()) {}

  absl::Status Add(absl::Span<const Contribution> contributions) override {
    TALLY_ASSIGN_OR_RETURN(const std::vector<Addend> addends, ParseAddends(context_, contributions));
    for (size_t first = 0; first < sums_.size(); first += kBlock) {
      const auto block = absl::MakeSpan(sums_).subspan(first, kBlock);
      for (const Addend& addend : addends) AddBlock(addend, first, block);
    }
    for (const Addend& addend : addends) weight_ += addend.weight;
    return absl::OkStatus();
  }

  absl::StatusOr<Bytes> Finish() override {
    if (weight_ == 0) return NothingToDivideBy();
    const ChunkContext context = AggregateOf(context_);
    Bytes aggregate;
    unsigned char* to = BeginSparse(context, {}, sums_.size(), &aggregate);
    WriteMean(context.dtype, sums_, weight_, to);
    return aggregate;
  }

  size_t memory() const override { return sizeof(*this) + sums_.capacity() * sizeof(double); }

 private:
  const ChunkContext context_;
  std::vector<double> sums_;
  double weight_ = 0;
};

// Each contribution with a set of its own.
class ScatteredAccumulator : public ChunkAccumulator {
 public:
  explicit ScatteredAccumulator(const ChunkContext& context)
      : context_(context), sums_(context.count), weights_(context.count) {}

  absl::Status Add(absl::Span<const Contribution> contributions) override {
    TALLY_ASSIGN_OR_RETURN(const std::vector<Addend> addends, ParseAddends(context_, contributions));
    for (const Addend& addend : addends) AddOne(addend);
    return absl::OkStatus();
  }

  absl::StatusOr<Bytes> Finish() override {
    if (weight_ == 0) return NothingToDivideBy();
    IndexSet set{context_.count, {}};
    std::vector<float> means;
    for (uint32_t i = 0; i < context_.count; ++i) {
      if (weights_[i] == 0) continue;
      set.indices.push_back(i);
      means.push_back(static_cast<float>(sums_[i] / weights_[i]));
    }
    return WriteSparse(AggregateOf(context_), set, means);
  }

  size_t memory() const override {
    return sizeof(*this) + (sums_.capacity() + weights_.capacity()) * sizeof(double);
  }

 private:
  void AddOne(const Addend& addend) {
    const absl::Span<const uint32_t> indices = addend.view.indices();
    float values[kBlock];
    for (size_t first = 0; first < indices.size(); first += kBlock) {
      const absl::Span<const uint32_t> block = indices.subspan(first, kBlock);
      addend.view.Decode(first, absl::MakeSpan(values, block.size()));
      for (size_t i = 0; i < block.size(); ++i) {
        const double product = addend.weight * static_cast<double>(values[i]);
        sums_[block[i]] += product;
        weights_[block[i]] += addend.weight;
      }
    }
    weight_ += addend.weight;
  }

  const ChunkContext context_;
  std::vector<double> sums_;     // by element
  std::vector<double> weights_;  // of who has it
  double weight_ = 0;
};

}  // namespace

std::unique_ptr<ChunkAccumulator> SparseMean::NewAccumulator(const ChunkContext& context) const {
  if (context.mask == nullptr) return std::make_unique<ScatteredAccumulator>(context);
  return std::make_unique<MaskedAccumulator>(context);
}

absl::Status SparseMean::ReduceInto(const ChunkContext& context,
                                    absl::Span<const Contribution> contributions,
                                    Bytes* aggregate) const {
  if (context.mask == nullptr || context.dtype == ValueDtype::kSign) {
    return Reduction::ReduceInto(context, contributions, aggregate);
  }
  TALLY_ASSIGN_OR_RETURN(const std::vector<Addend> addends, ParseAddends(context, contributions));
  std::vector<WeightedValues> values;
  double total = 0;
  for (const Addend& addend : addends) {
    values.push_back({addend.view.values, addend.weight});
    total += addend.weight;
  }
  if (total == 0) return NothingToDivideBy();
  const size_t n = context.mask->indices.size();
  unsigned char* to = BeginSparse(context, {}, n, aggregate);
  MeanOf(context.dtype, values, n, total, to);
  return absl::OkStatus();
}

Bytes SparseMean::Pack(const ChunkContext& context, absl::Span<const float> values,
                       uint64_t zero_key) const {
  IndexSet own{static_cast<uint32_t>(values.size()), {}};
  std::vector<float> chosen;
  if (context.mask != nullptr) {
    for (const uint32_t index : context.mask->indices) chosen.push_back(values[index]);
  } else {
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) continue;
      own.indices.push_back(i);
      chosen.push_back(values[i]);
    }
  }
  return WriteSparse(context, own, chosen, zero_key);
}

absl::StatusOr<std::vector<float>> SparseMean::Unpack(const ChunkContext& context,
                                                      ByteSpan aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const SparseView view, ParseSparse(context, aggregate));
  std::vector<float> chosen(view.indices().size()), values(context.count);
  view.Decode(0, absl::MakeSpan(chosen));
  for (size_t i = 0; i < chosen.size(); ++i) values[view.indices()[i]] = chosen[i];
  return values;
}

}  // namespace tally
