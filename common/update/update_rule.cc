#include "common/update/update_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/majority/majority_payload.h"
#include "common/reduction/sign_mean/sign_mean_payload.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/reduction/value_codec.h"
#include "common/reduction/words.h"
#include "common/update/adamw_step.h"
#include "common/update/lion_step.h"
#include "common/update/outer_step.h"
#include "common/update/sign_step.h"

namespace tally {
namespace {

absl::Status Expected(absl::string_view key, absl::string_view range, double found) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": expected a number ", range, ", found ", found));
}

absl::Status CheckRates(const UpdateContext& context) {
  const double rate = context.learning_rate, decay = context.weight_decay;
  if (!(std::isfinite(rate) && rate >= 0)) return Expected("learning_rate", "from 0 on", rate);
  if (!(std::isfinite(decay) && decay >= 0)) return Expected("weight_decay", "from 0 on", decay);
  if (rate * decay <= 1) return absl::OkStatus();
  return Expected("learning_rate * weight_decay", "up to 1", rate * decay);
}

absl::Status CheckBetas(const UpdateContext& context) {
  if (!(context.beta1 >= 0 && context.beta1 < 1)) {
    return Expected("beta1", "in [0, 1)", context.beta1);
  }
  if (context.beta2 >= 0 && context.beta2 < 1) return absl::OkStatus();
  return Expected("beta2", "in [0, 1)", context.beta2);
}

// The values of a part alone, in float32: as they lie in the aggregate, or decoded.
struct PartValues {
  DenseView view;
  std::vector<float> decoded;
};

absl::StatusOr<PartValues> ParsePart(ChunkPart part, size_t size, ByteSpan aggregate) {
  TALLY_ASSIGN_OR_RETURN(const DenseView whole, ParseDense(part.count, aggregate));
  const unsigned char* first = whole.values + BytesOfValues(whole.dtype, part.first);
  if (whole.dtype == ValueDtype::kFloat32) return PartValues{{size, first}, {}};
  std::vector<float> decoded(size);
  DecodeValues(whole.dtype, first, absl::MakeSpan(decoded));
  const auto* bytes = reinterpret_cast<const unsigned char*>(decoded.data());
  return PartValues{{size, bytes}, std::move(decoded)};
}

class SignStepRule : public UpdateRule {
  absl::string_view name() const override { return "sign_step"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    return CheckRates(context);
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    const size_t lane = part.first / kLaneElements;
    if (IsMean(step)) {
      TALLY_ASSIGN_OR_RETURN(const SignMeanView view, ParseSignMean(part.count, step.aggregate));
      SignStep(view, CoefficientsOf(step), x, lane);
    } else {
      TALLY_ASSIGN_OR_RETURN(const MajorityView view, ParseMajority(part.count, step.aggregate));
      SignStep(view, CoefficientsOf(step), x, lane);
    }
    return absl::OkStatus();
  }
  absl::Status Steps(absl::Span<const UpdateStep> steps, ChunkPart part, absl::Span<float> x,
                     absl::Span<const absl::Span<float>> state) const override {
    if (std::any_of(steps.begin(), steps.end(), IsMean)) {
      return UpdateRule::Steps(steps, part, x, state);
    }
    std::vector<MajorityStep> majorities;
    for (const UpdateStep& step : steps) {
      TALLY_ASSIGN_OR_RETURN(const MajorityView view, ParseMajority(part.count, step.aggregate));
      majorities.push_back({view, CoefficientsOf(step)});
    }
    SignSteps(majorities, x, part.first / kLaneElements);
    return absl::OkStatus();
  }

  static StepCoefficients CoefficientsOf(const UpdateStep& step) {
    return StepCoefficientsOf(step.context.learning_rate, step.context.weight_decay);
  }
  // A sign_mean has its voters there, at least one; a majority has 0.
  static bool IsMean(const UpdateStep& step) {
    return step.aggregate.size() > 1 && step.aggregate[1] != 0;
  }
};

class LionStepRule : public UpdateRule {
  absl::string_view name() const override { return "lion_step"; }
  int state_slots() const override { return 1; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    TALLY_RETURN_IF_ERROR(CheckRates(context));
    return CheckBetas(context);
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const override {
    const UpdateContext& context = step.context;
    TALLY_ASSIGN_OR_RETURN(const PartValues gradient, ParsePart(part, x.size(), step.aggregate));
    LionStep(gradient.view,
             LionCoefficientsOf(context.learning_rate, context.weight_decay, context.beta1,
                                context.beta2),
             state[0], x);
    return absl::OkStatus();
  }
};

class AdamWStepRule : public UpdateRule {
  absl::string_view name() const override { return "adamw_step"; }
  int state_slots() const override { return 2; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    TALLY_RETURN_IF_ERROR(CheckRates(context));
    TALLY_RETURN_IF_ERROR(CheckBetas(context));
    if (context.step == 0) return Expected("step", "from 1 on", 0);
    const auto epsilon = static_cast<float>(context.epsilon);
    if (std::isfinite(epsilon) && epsilon > 0) return absl::OkStatus();
    return Expected("epsilon", "above 0 in float32", context.epsilon);
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const override {
    const UpdateContext& context = step.context;
    TALLY_ASSIGN_OR_RETURN(const PartValues gradient, ParsePart(part, x.size(), step.aggregate));
    const AdamWOptions options{context.learning_rate, context.weight_decay, context.beta1,
                               context.beta2,         context.epsilon,      context.step};
    AdamWStep(gradient.view, AdamWCoefficientsOf(options), state[0], state[1], x);
    return absl::OkStatus();
  }
};

// What the local steps have made; their decay is in it already.
class OuterRule : public UpdateRule {
  absl::Status CheckContext(const UpdateContext& context) const override {
    TALLY_RETURN_IF_ERROR(CheckRates(context));
    if (context.weight_decay != 0) return Expected("weight_decay", "0", context.weight_decay);
    return CheckBetas(context);
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const override {
    TALLY_ASSIGN_OR_RETURN(const PartValues delta, ParsePart(part, x.size(), step.aggregate));
    Move(delta.view, {static_cast<float>(step.context.learning_rate),
                 static_cast<float>(step.context.beta1)}, x, state);
    return absl::OkStatus();
  }
  virtual void Move(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const = 0;
};

class OuterSgdRule : public OuterRule {
  absl::string_view name() const override { return "outer_sgd"; }
  int state_slots() const override { return 0; }
  void Move(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x,
            absl::Span<const absl::Span<float>> /*state*/) const override {
    OuterSgdStep(delta, k, x);
  }
};

class OuterMomentumRule : public OuterRule {
  absl::string_view name() const override { return "outer_momentum"; }
  int state_slots() const override { return 1; }
  void Move(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x,
            absl::Span<const absl::Span<float>> state) const override {
    OuterMomentumStep(delta, k, state[0], x);
  }
};

class OuterNesterovRule : public OuterRule {
  absl::string_view name() const override { return "outer_nesterov"; }
  int state_slots() const override { return 1; }
  void Move(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x,
            absl::Span<const absl::Span<float>> state) const override {
    OuterNesterovStep(delta, k, state[0], x);
  }
};

class AssignRule : public UpdateRule {
  absl::string_view name() const override { return "assign"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& /*context*/) const override {
    return absl::OkStatus();
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    TALLY_ASSIGN_OR_RETURN(const PartValues values, ParsePart(part, x.size(), step.aggregate));
    std::memcpy(x.data(), values.view.values, x.size() * sizeof(float));
    return absl::OkStatus();
  }
};

// The elements of a set that are in [first, first + size).
absl::Span<const uint32_t> PartOf(absl::Span<const uint32_t> indices, uint32_t first, size_t size) {
  const auto begin = std::lower_bound(indices.begin(), indices.end(), first);
  const auto end = std::lower_bound(begin, indices.end(), first + size);
  return indices.subspan(static_cast<size_t>(begin - indices.begin()),
                         static_cast<size_t>(end - begin));
}

class SparseAddRule : public UpdateRule {
  absl::string_view name() const override { return "sparse_add"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    TALLY_RETURN_IF_ERROR(CheckRates(context));
    // Decay is the local optimiser's: here it would move what is not in the mask.
    if (context.weight_decay != 0) return Expected("weight_decay", "0", context.weight_decay);
    return absl::OkStatus();
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    TALLY_ASSIGN_OR_RETURN(const ValueDtype dtype, DtypeOfAggregate(step.aggregate));
    const ChunkContext context{.count = part.count, .dtype = dtype, .mask = step.mask};
    TALLY_ASSIGN_OR_RETURN(const SparseView view, ParseSparse(context, step.aggregate));
    const absl::Span<const uint32_t> all = view.indices();
    const absl::Span<const uint32_t> here = PartOf(all, part.first, x.size());
    std::vector<float> delta(here.size());
    view.Decode(static_cast<size_t>(here.data() - all.data()), absl::MakeSpan(delta));
    const auto rate = static_cast<float>(step.context.learning_rate);
    for (size_t i = 0; i < here.size(); ++i) {
      float& moved = x[here[i] - part.first];
      moved = std::fma(rate, delta[i], moved);
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<ValueDtype> DtypeOfAggregate(ByteSpan aggregate) {
    const auto dtype = static_cast<ValueDtype>(aggregate.empty() ? 0 : aggregate[0]);
    if (dtype >= ValueDtype::kFloat32 && dtype <= ValueDtype::kFloat16) return dtype;
    return absl::InvalidArgumentError("sparse aggregate: head byte 0: expected dtype 1, 2 or 3");
  }
};

class SetMaskRule : public UpdateRule {
  absl::string_view name() const override { return "set_mask"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& /*context*/) const override {
    return absl::OkStatus();
  }
  absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> /*x*/,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    return DecodeIndexSet(part.count, step.aggregate).status();
  }
};

const std::array<const UpdateRule*, 9>& Table() {
  static const auto* table = new std::array<const UpdateRule*, 9>{
      new SignStepRule,
      new LionStepRule,
      new AdamWStepRule,
      new AssignRule,
      new OuterSgdRule,
      new OuterMomentumRule,
      new OuterNesterovRule,
      new SparseAddRule,
      new SetMaskRule,
  };
  return *table;
}

absl::Status CheckState(int slots, size_t size, absl::Span<const absl::Span<float>> state) {
  if (state.size() != static_cast<size_t>(slots)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", slots, " state buffers, found ", state.size()));
  }
  for (const absl::Span<float>& slot : state) {
    if (slot.size() != size) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected state of ", size, " elements, found ", slot.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPart(ChunkPart part, size_t size) {
  if (part.first % kLaneElements == 0 && part.first <= part.count &&
      size <= part.count - part.first) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("elements ", part.first, " to ", part.first + size,
                                                 " are no lanes of a chunk of ", part.count));
}

}  // namespace

absl::Status UpdateRule::Check(const UpdateContext& context) const {
  return WithContext(CheckContext(context), absl::StrCat(name(), ", round ", context.round));
}

absl::Status UpdateRule::Apply(const UpdateContext& context, ByteSpan aggregate,
                               absl::Span<float> x,
                               absl::Span<const absl::Span<float>> state) const {
  return ApplyAll({UpdateStep{context, aggregate, nullptr}}, {static_cast<uint32_t>(x.size()), 0}, x, state);
}

absl::Status UpdateRule::ApplyAll(absl::Span<const UpdateStep> steps, ChunkPart part,
                                  absl::Span<float> x,
                                  absl::Span<const absl::Span<float>> state) const {
  if (steps.empty()) return absl::OkStatus();
  for (const UpdateStep& step : steps) TALLY_RETURN_IF_ERROR(Check(step.context));
  const auto apply = [&]() -> absl::Status {
    TALLY_RETURN_IF_ERROR(CheckPart(part, x.size()));
    TALLY_RETURN_IF_ERROR(CheckState(state_slots(), x.size(), state));
    return Steps(steps, part, x, state);
  };
  return WithContext(apply(), absl::StrCat(name(), ", round ", steps.front().context.round));
}

absl::Status UpdateRule::Steps(absl::Span<const UpdateStep> steps, ChunkPart part,
                               absl::Span<float> x,
                               absl::Span<const absl::Span<float>> state) const {
  for (const UpdateStep& step : steps) TALLY_RETURN_IF_ERROR(Step(step, part, x, state));
  return absl::OkStatus();
}

std::vector<absl::string_view> UpdateRuleNames() {
  std::vector<absl::string_view> names;
  for (const UpdateRule* rule : Table()) names.push_back(rule->name());
  return names;
}

absl::StatusOr<const UpdateRule*> FindUpdateRule(absl::string_view name) {
  for (const UpdateRule* rule : Table()) {
    if (rule->name() == name) return rule;
  }
  return absl::NotFoundError(absl::StrCat("no update rule is named '", name, "'; there are ",
                                          absl::StrJoin(UpdateRuleNames(), ", ")));
}

}  // namespace tally
