// The outer rules against their definitions, on every instruction set.
#include "common/update/outer_step.h"

#include <cmath>
#include <random>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/update/update_rule.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/targets.h"
#include "tests/common/update/bits.h"

namespace tally {
namespace {

using testing::BitsOf;
using testing::ForEachTarget;
using testing::IsOk;

std::vector<float> Normal(size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = random() % 10 == 0 ? 0.0f : normal(random);
  return values;
}

absl::Status Apply(absl::string_view rule, const UpdateContext& context,
                   const std::vector<float>& delta, std::vector<float>& x, std::vector<float>& u) {
  std::vector<absl::Span<float>> state;
  if ((*FindUpdateRule(rule))->state_slots() == 1) state.push_back(absl::MakeSpan(u));
  return (*FindUpdateRule(rule))->Apply(context, WriteDense(delta), absl::MakeSpan(x), state);
}

// One parameter by the words of the header.
void Define(absl::string_view rule, float rate, float momentum, float delta, float& u, float& x) {
  if (rule == "outer_sgd") {
    x = std::fma(rate, delta, x);
    return;
  }
  u = std::fma(momentum, u, delta);
  x = std::fma(rate, rule == "outer_momentum" ? u : std::fma(momentum, u, delta), x);
}

TEST(OuterStep, EqualsTheDefinitionAtEveryLength) {
  const UpdateContext context{.learning_rate = 0.7, .beta1 = 0.9};
  for (const char* rule : {"outer_sgd", "outer_momentum", "outer_nesterov"}) {
    ForEachTarget([&] {
      std::mt19937_64 random(5);
      for (size_t count = 1; count <= 130; ++count) {
        std::vector<float> x = Normal(count, random), u(count), expected_x = x, expected_u = u;
        for (int step = 0; step < 4; ++step) {
          const std::vector<float> delta = Normal(count, random);
          for (size_t i = 0; i < count; ++i) {
            Define(rule, 0.7f, 0.9f, delta[i], expected_u[i], expected_x[i]);
          }
          TALLY_ASSERT_OK(Apply(rule, context, delta, x, u));
        }
        EXPECT_EQ(BitsOf(x), BitsOf(expected_x)) << rule << " of " << count;
        EXPECT_EQ(BitsOf(u), BitsOf(expected_u)) << rule << " of " << count;
      }
    });
  }
}

// One average with rate 1 is the mean of the workers' parameters; with a it lies a of the way.
TEST(OuterStep, OneAverageIsTheSpecialCase) {
  std::vector<float> x = {1, -2}, none;
  TALLY_ASSERT_OK(Apply("outer_sgd", {.learning_rate = 1}, {0.5f, 4}, x, none));
  EXPECT_EQ(x, (std::vector<float>{1.5f, 2}));
  TALLY_ASSERT_OK(Apply("outer_sgd", {.learning_rate = 0.25}, {-2, 4}, x, none));
  EXPECT_EQ(x, (std::vector<float>{1, 3}));
}

TEST(OuterStep, WithoutMomentumAllThreeAreTheSame) {
  std::mt19937_64 random(6);
  const std::vector<float> base = Normal(70, random), delta = Normal(70, random);
  std::vector<float> sgd = base, momentum = base, nesterov = base, u(70), v(70);
  const UpdateContext context{.learning_rate = 0.7, .beta1 = 0};
  TALLY_ASSERT_OK(Apply("outer_sgd", context, delta, sgd, u));
  TALLY_ASSERT_OK(Apply("outer_momentum", context, delta, momentum, u));
  TALLY_ASSERT_OK(Apply("outer_nesterov", context, delta, nesterov, v));
  EXPECT_EQ(BitsOf(sgd), BitsOf(momentum));
  EXPECT_EQ(BitsOf(sgd), BitsOf(nesterov));
}

}  // namespace
}  // namespace tally
