#include "worker/method/fish/fish.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/update/round_context.h"
#include "worker/method/local_method.h"

namespace tally {
namespace {

using Indices = std::vector<uint64_t>;

// What `from` has of the elements that stay, zero for new ones. Both index lists ascend.
void Carry(const Indices& before, absl::Span<const float> from, const Indices& now,
           absl::Span<float> to) {
  size_t i = 0;
  for (size_t j = 0; j < now.size(); ++j) {
    while (i < before.size() && before[i] < now[j]) ++i;
    to[j] = i < before.size() && before[i] == now[j] ? from[i] : 0.0f;
  }
}

class Fish : public LocalMethod {
 public:
  explicit Fish(const MethodOptions& options)
      : LocalMethod(OptimiserOptionsOf(options.spec), 0),
        seed_(options.seed),
        worker_(options.worker),
        feeds_back_(options.spec.local().dtype() == "sign") {}

  void SetMask(const MaskPointer& mask) override {
    if (mask_ == mask) return;
    mask_ = mask;
    const Indices before = std::exchange(indices_, mask->FlatIndices());
    const std::unique_ptr<LocalOptimiser> old = Resize(indices_.size());
    const std::vector<absl::Span<float>> from = old->state(), to = optimiser().state();
    for (size_t slot = 0; slot < to.size(); ++slot) Carry(before, from[slot], indices_, to[slot]);
    if (!feeds_back_) return;
    const std::vector<float> error = std::exchange(error_, std::vector<float>(indices_.size()));
    Carry(before, error, indices_, absl::MakeSpan(error_));
  }

  void BeginContribution() override { next_error_ = error_; }
  void EndContribution() override { error_.swap(next_error_); }

  absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                               absl::Span<const float> delta, EncodeStats*) override {
    TALLY_ASSIGN_OR_RETURN(const IndexSet* set, MaskOfChunk(round, mask_.get(), chunk));
    TALLY_ASSIGN_OR_RETURN(const ChunkContext context, ContributionContext(round, chunk, set));
    Bytes payload = feeds_back_ ? EncodeSigns(round, context, chunk, delta)
                                : WriteSparse(context, {}, delta);
    TALLY_RETURN_IF_ERROR(CheckSparse(context, payload));
    return payload;
  }

  std::vector<MethodState> State() override {
    std::vector<MethodState> states = LocalMethod::State();
    if (feeds_back_) states.push_back({"error", absl::MakeSpan(error_)});
    return states;
  }

 private:
  Bytes EncodeSigns(const v1::RoundSpec& round, const ChunkContext& context, const Chunk& chunk,
                    absl::Span<const float> delta) {
    const auto first = std::lower_bound(indices_.begin(), indices_.end(), chunk.first);
    const absl::Span<float> error = absl::MakeSpan(next_error_).subspan(
        static_cast<size_t>(first - indices_.begin()), delta.size());
    for (size_t i = 0; i < delta.size(); ++i) error[i] += delta[i];
    const uint64_t zeros = StreamKey(seed_, worker_ + 1, round.round(), RandomPurpose::kZero);
    Bytes payload = WriteSparse(context, {}, error, Mix64(zeros ^ chunk.first_lane));
    const absl::StatusOr<SparseView> view = ParseSparse(context, payload);
    if (!view.ok()) return payload;  // not finite: the check behind tells
    std::vector<float> sent(delta.size());
    view->Decode(0, absl::MakeSpan(sent));
    for (size_t i = 0; i < sent.size(); ++i) error[i] -= sent[i];
    return payload;
  }

  const uint64_t seed_;
  const uint32_t worker_;
  const bool feeds_back_;
  MaskPointer mask_;
  Indices indices_;           // flat, of the mask's elements
  std::vector<float> error_;  // with signs: what was not sent yet, one an element of the mask
  std::vector<float> next_error_;  // after the contribution being made
};

}  // namespace

std::unique_ptr<Method> MakeFish(const MethodOptions& options, const Layout& /*layout*/) {
  return std::make_unique<Fish>(options);
}

}  // namespace tally
