#include "common/update/update_rule.h"

#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/majority/majority_payload.h"
#include "common/reduction/sign_mean/sign_mean_payload.h"
#include "common/update/adamw_step.h"
#include "common/update/lion_step.h"
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

class SignStepRule : public UpdateRule {
  absl::string_view name() const override { return "sign_step"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    return CheckRates(context);
  }
  absl::Status Step(const UpdateContext& context, ByteSpan aggregate, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    const auto step = StepCoefficientsOf(context.learning_rate, context.weight_decay);
    // A sign_mean has its voters there, at least one; a majority has 0.
    const bool is_mean = aggregate.size() > 1 && aggregate[1] != 0;
    if (is_mean) {
      TALLY_ASSIGN_OR_RETURN(const SignMeanView view, ParseSignMean(x.size(), aggregate));
      SignStep(view, step, x);
    } else {
      TALLY_ASSIGN_OR_RETURN(const MajorityView view, ParseMajority(x.size(), aggregate));
      SignStep(view, step, x);
    }
    return absl::OkStatus();
  }
};

class LionStepRule : public UpdateRule {
  absl::string_view name() const override { return "lion_step"; }
  int state_slots() const override { return 1; }
  absl::Status CheckContext(const UpdateContext& context) const override {
    TALLY_RETURN_IF_ERROR(CheckRates(context));
    return CheckBetas(context);
  }
  absl::Status Step(const UpdateContext& context, ByteSpan aggregate, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const override {
    TALLY_ASSIGN_OR_RETURN(const DenseView gradient, ParseDense(x.size(), aggregate));
    LionStep(gradient,
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
  absl::Status Step(const UpdateContext& context, ByteSpan aggregate, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> state) const override {
    TALLY_ASSIGN_OR_RETURN(const DenseView gradient, ParseDense(x.size(), aggregate));
    const AdamWOptions options{context.learning_rate, context.weight_decay, context.beta1,
                               context.beta2,         context.epsilon,      context.step};
    AdamWStep(gradient, AdamWCoefficientsOf(options), state[0], state[1], x);
    return absl::OkStatus();
  }
};

class AssignRule : public UpdateRule {
  absl::string_view name() const override { return "assign"; }
  int state_slots() const override { return 0; }
  absl::Status CheckContext(const UpdateContext& /*context*/) const override {
    return absl::OkStatus();
  }
  absl::Status Step(const UpdateContext& /*context*/, ByteSpan aggregate, absl::Span<float> x,
                    absl::Span<const absl::Span<float>> /*state*/) const override {
    TALLY_ASSIGN_OR_RETURN(const DenseView values, ParseDense(x.size(), aggregate));
    std::memcpy(x.data(), values.values, x.size() * sizeof(float));
    return absl::OkStatus();
  }
};

const std::array<const UpdateRule*, 4>& Table() {
  static const auto* table = new std::array<const UpdateRule*, 4>{
      new SignStepRule,
      new LionStepRule,
      new AdamWStepRule,
      new AssignRule,
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

}  // namespace

absl::Status UpdateRule::Apply(const UpdateContext& context, ByteSpan aggregate,
                               absl::Span<float> x,
                               absl::Span<const absl::Span<float>> state) const {
  const auto apply = [&]() -> absl::Status {
    TALLY_RETURN_IF_ERROR(CheckContext(context));
    TALLY_RETURN_IF_ERROR(CheckState(state_slots(), x.size(), state));
    return Step(context, aggregate, x, state);
  };
  return WithContext(apply(), absl::StrCat(name(), ", round ", context.round));
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
