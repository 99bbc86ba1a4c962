// lion_step, adamw_step and assign against their definitions, on every instruction set.
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

constexpr size_t kCount = 64 * 5 + 7;

std::vector<float> Normal(std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(kCount);
  for (float& value : values) value = random() % 10 == 0 ? 0.0f : normal(random);
  return values;
}

TEST(LionStep, EqualsTheDefinition) {
  const UpdateContext context{
      .learning_rate = 1e-3, .weight_decay = 0.1, .beta1 = 0.95, .beta2 = 0.98};
  const auto a = static_cast<float>(1 - 1e-3 * 0.1), rate = 1e-3f;
  const float b1 = 0.95, b1c = 1 - 0.95, b2 = 0.98, b2c = 1 - 0.98;
  ForEachTarget([&] {
    std::mt19937_64 random(1);
    std::vector<float> x = Normal(random), m(kCount), expected_x = x, expected_m = m;
    for (int step = 0; step < 20; ++step) {
      const std::vector<float> g = Normal(random);
      for (size_t i = 0; i < kCount; ++i) {
        const float kept = b1 * expected_m[i], fresh = b1c * g[i], c = kept + fresh;
        const float addend = c > 0 ? -rate : c < 0 ? rate : -0.0f;
        expected_x[i] = std::fma(expected_x[i], a, addend);
        const float old = b2 * expected_m[i], added = b2c * g[i];
        expected_m[i] = old + added;
      }
      TALLY_ASSERT_OK((*FindUpdateRule("lion_step"))
                          ->Apply(context, WriteDense(g), absl::MakeSpan(x), {absl::MakeSpan(m)}));
    }
    EXPECT_EQ(BitsOf(x), BitsOf(expected_x));
    EXPECT_EQ(BitsOf(m), BitsOf(expected_m));
  });
}

// Decay is decoupled and multiplied by the rate.
TEST(LionStep, OneStepOfDecayAlone) {
  std::vector<float> x = {1}, m = {0};
  TALLY_ASSERT_OK((*FindUpdateRule("lion_step"))
                      ->Apply({.learning_rate = 0.1, .weight_decay = 0.1}, WriteDense({0}),
                              absl::MakeSpan(x), {absl::MakeSpan(m)}));
  EXPECT_EQ(x[0], 0.99f);
  EXPECT_EQ(m[0], 0.0f);
}

TEST(AdamWStep, EqualsTheDefinition) {
  UpdateContext context{.learning_rate = 2e-3, .weight_decay = 0.01, .beta2 = 0.999};
  const auto a = static_cast<float>(1 - 2e-3 * 0.01);
  const float b1 = 0.9, b1c = 1 - 0.9, b2 = 0.999, b2c = 1 - 0.999, epsilon = 1e-8f;
  ForEachTarget([&] {
    std::mt19937_64 random(2);
    std::vector<float> x = Normal(random), m(kCount), v(kCount);
    std::vector<float> expected_x = x, expected_m = m, expected_v = v;
    double power1 = 1, power2 = 1;
    // Up to 2 steps the powers of a loop and of repeated squaring are the same.
    for (context.step = 1; context.step <= 2; ++context.step) {
      power1 *= 0.9;
      power2 *= 0.999;
      const auto minus_step = -static_cast<float>(2e-3 / (1 - power1));
      const auto root = static_cast<float>(1 / std::sqrt(1 - power2));
      const std::vector<float> g = Normal(random);
      for (size_t i = 0; i < kCount; ++i) {
        const float kept = b1 * expected_m[i], fresh = b1c * g[i];
        expected_m[i] = kept + fresh;
        const float square = g[i] * g[i], old = b2 * expected_v[i], added = b2c * square;
        expected_v[i] = old + added;
        const float scaled = std::sqrt(expected_v[i]) * root, scale = scaled + epsilon;
        const float addend = minus_step * (expected_m[i] / scale);
        expected_x[i] = std::fma(expected_x[i], a, addend);
      }
      TALLY_ASSERT_OK((*FindUpdateRule("adamw_step"))
                          ->Apply(context, WriteDense(g), absl::MakeSpan(x),
                                  {absl::MakeSpan(m), absl::MakeSpan(v)}));
    }
    EXPECT_EQ(BitsOf(x), BitsOf(expected_x));
    EXPECT_EQ(BitsOf(m), BitsOf(expected_m));
    EXPECT_EQ(BitsOf(v), BitsOf(expected_v));
  });
}

// Against the formula in double over many steps, bias correction included.
TEST(AdamWStep, FollowsTheFormulaInDouble) {
  UpdateContext context{.learning_rate = 1e-2, .weight_decay = 0.1, .beta2 = 0.999};
  std::mt19937_64 random(3);
  std::vector<float> x = Normal(random), m(kCount), v(kCount);
  std::vector<double> xd(x.begin(), x.end()), md(kCount), vd(kCount);
  for (context.step = 1; context.step <= 300; ++context.step) {
    const std::vector<float> g = Normal(random);
    TALLY_ASSERT_OK((*FindUpdateRule("adamw_step"))
                        ->Apply(context, WriteDense(g), absl::MakeSpan(x),
                                {absl::MakeSpan(m), absl::MakeSpan(v)}));
    for (size_t i = 0; i < kCount; ++i) {
      md[i] = 0.9 * md[i] + 0.1 * g[i];
      vd[i] = 0.999 * vd[i] + 0.001 * g[i] * g[i];
      const double m_hat = md[i] / (1 - std::pow(0.9, context.step));
      const double v_hat = vd[i] / (1 - std::pow(0.999, context.step));
      xd[i] = xd[i] * (1 - 1e-2 * 0.1) - 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
  }
  for (size_t i = 0; i < kCount; ++i) EXPECT_NEAR(x[i], xd[i], 2e-4) << i;
}

TEST(Assign, TakesTheAggregateAsItIs) {
  std::mt19937_64 random(4);
  const std::vector<float> values = Normal(random);
  std::vector<float> x(kCount, 7);
  TALLY_ASSERT_OK(
      (*FindUpdateRule("assign"))->Apply({}, WriteDense(values), absl::MakeSpan(x), {}));
  EXPECT_EQ(BitsOf(x), BitsOf(values));
}

}  // namespace
}  // namespace tally
