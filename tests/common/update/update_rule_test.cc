#include "common/update/update_rule.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

// Applies the rule to 4 parameters with the state it asks for; x must stay as it was.
absl::Status ApplyUnchanged(absl::string_view name, const UpdateContext& context,
                            const Bytes& aggregate) {
  const UpdateRule& rule = **FindUpdateRule(name);
  std::vector<std::vector<float>> buffers(rule.state_slots(), std::vector<float>(4, 0.5f));
  std::vector<absl::Span<float>> state;
  for (auto& buffer : buffers) state.push_back(absl::MakeSpan(buffer));
  std::vector<float> x = {1, 2, 3, 4};
  const absl::Status status = rule.Apply(context, aggregate, absl::MakeSpan(x), state);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4}));
  for (auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<float>(4, 0.5f));
  return status;
}

auto Refused(absl::string_view message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message)));
}

TEST(UpdateRule, FindsEachByItsName) {
  for (absl::string_view name : UpdateRuleNames()) EXPECT_EQ((*FindUpdateRule(name))->name(), name);
}

TEST(UpdateRule, UnknownNameListsThoseThereAre) {
  EXPECT_THAT(FindUpdateRule("sgd"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("'sgd'; there are sign_step, lion_step, adamw_step, assign, "
                                 "outer_sgd, outer_momentum, outer_nesterov")));
}

TEST(UpdateRule, BadRatesAreRefusedByNameAndRound) {
  const Bytes aggregate = WriteDense({1, 1, 1, 1});
  const double inf = std::numeric_limits<double>::infinity();
  for (const char* rule : {"sign_step", "lion_step", "adamw_step", "outer_nesterov"}) {
    for (double bad : {-1.0, inf, std::nan("")}) {
      EXPECT_THAT(ApplyUnchanged(rule, {.learning_rate = bad, .round = 7}, aggregate),
                  AllOf(Refused("learning_rate"), Refused("round 7")));
      EXPECT_THAT(ApplyUnchanged(rule, {.weight_decay = bad}, aggregate), Refused("weight_decay"));
    }
    EXPECT_THAT(ApplyUnchanged(rule, {.learning_rate = 1, .weight_decay = 1.5}, aggregate),
                Refused("learning_rate * weight_decay: expected a number up to 1, found 1.5"));
  }
}

TEST(UpdateRule, BadBetasEpsilonAndStepAreRefused) {
  const Bytes aggregate = WriteDense({1, 1, 1, 1});
  EXPECT_THAT(ApplyUnchanged("lion_step", {.beta1 = 1}, aggregate), Refused("beta1"));
  EXPECT_THAT(ApplyUnchanged("adamw_step", {.beta2 = -0.1}, aggregate), Refused("beta2"));
  EXPECT_THAT(ApplyUnchanged("adamw_step", {.epsilon = 0}, aggregate), Refused("epsilon"));
  EXPECT_THAT(ApplyUnchanged("adamw_step", {.epsilon = 1e-60}, aggregate), Refused("epsilon"));
  EXPECT_THAT(ApplyUnchanged("adamw_step", {.step = 0}, aggregate), Refused("step"));
}

// The local steps' own decay is in their delta.
TEST(UpdateRule, OuterRulesTakeNoDecay) {
  for (const char* rule : {"outer_sgd", "outer_momentum", "outer_nesterov"}) {
    EXPECT_THAT(ApplyUnchanged(rule, {.learning_rate = 1, .weight_decay = 0.1},
                               WriteDense({1, 1, 1, 1})),
                Refused("weight_decay: expected a number 0, found 0.1"));
  }
}

TEST(UpdateRule, AggregateOfAnotherSizeIsRefused) {
  for (absl::string_view rule : UpdateRuleNames()) {
    EXPECT_THAT(ApplyUnchanged(rule, {.learning_rate = 0.1}, WriteDense({1, 1, 1})), Refused(rule));
    EXPECT_THAT(ApplyUnchanged(rule, {.learning_rate = 0.1}, {}), Refused(rule));
  }
}

TEST(UpdateRule, WrongStateIsRefused) {
  const Bytes aggregate = WriteDense({1, 1});
  std::vector<float> x(2), m(1);
  EXPECT_THAT((*FindUpdateRule("lion_step"))->Apply({}, aggregate, absl::MakeSpan(x), {}),
              Refused("expected 1 state buffers, found 0"));
  EXPECT_THAT((*FindUpdateRule("lion_step"))
                  ->Apply({}, aggregate, absl::MakeSpan(x), {absl::MakeSpan(m)}),
              Refused("expected state of 2 elements, found 1"));
}

}  // namespace
}  // namespace tally
