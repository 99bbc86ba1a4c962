#include "common/update/sgd_step.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/reduction/targets.h"
#include "tests/common/update/bits.h"

namespace tally {
namespace {

using testing::BitsOf;
using testing::ForEachTarget;

std::vector<float> Normal(size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = random() % 10 == 0 ? 0.0f : normal(random);
  return values;
}

TEST(SgdStep, EqualsTheDefinitionAtEveryLength) {
  const SgdCoefficients k{.rate = 0.1f, .momentum = 0.9f, .decay = 0.01f};
  ForEachTarget([&] {
    std::mt19937_64 random(7);
    for (size_t count = 0; count <= 130; ++count) {
      std::vector<float> x = Normal(count, random), m(count), expected_x = x, expected_m = m;
      for (int step = 0; step < 4; ++step) {
        const std::vector<float> g = Normal(count, random);
        for (size_t i = 0; i < count; ++i) {
          const float decayed = std::fma(k.decay, expected_x[i], g[i]);
          expected_m[i] = std::fma(k.momentum, expected_m[i], decayed);
          expected_x[i] = std::fma(-k.rate, expected_m[i], expected_x[i]);
        }
        SgdStep(g, k, absl::MakeSpan(m), absl::MakeSpan(x));
      }
      EXPECT_EQ(BitsOf(x), BitsOf(expected_x)) << count;
      EXPECT_EQ(BitsOf(m), BitsOf(expected_m)) << count;
    }
  });
}

// Three steps by hand: momentum 0.5, no decay, gradient 1.
TEST(SgdStep, MomentumAddsUp) {
  std::vector<float> x = {0}, m = {0};
  for (const float expected : {-1.0f, -2.5f, -4.25f}) {
    SgdStep({1.0f}, {.rate = 1, .momentum = 0.5f}, absl::MakeSpan(m), absl::MakeSpan(x));
    EXPECT_EQ(x[0], expected);
  }
}

}  // namespace
}  // namespace tally
