#include "common/spec/learning_rate.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace tally {
namespace {

struct Case {
  const char* schedule;
  uint64_t warmup;
  uint64_t round;
  uint64_t rounds;
  double expected;
};

class Schedules : public ::testing::TestWithParam<Case> {};

TEST_P(Schedules, AtThisRound) {
  const Case& c = GetParam();
  v1::LearningRate rate;
  rate.set_schedule(c.schedule);
  rate.set_peak(1.0);
  rate.set_final(0.2);
  rate.set_warmup_rounds(c.warmup);
  EXPECT_NEAR(LearningRateAt(rate, c.round, c.rounds), c.expected, 1e-15);
}

INSTANTIATE_TEST_SUITE_P(
    EndsAndMiddles, Schedules,
    ::testing::Values(Case{"constant", 0, 1, 101, 1.0}, Case{"constant", 0, 101, 101, 1.0},
                      Case{"constant", 10, 1, 101, 0.1}, Case{"constant", 10, 10, 101, 1.0},
                      Case{"linear", 0, 1, 101, 1.0}, Case{"linear", 0, 51, 101, 0.6},
                      Case{"linear", 0, 101, 101, 0.2}, Case{"linear", 21, 61, 101, 0.6},
                      Case{"cosine", 0, 1, 101, 1.0}, Case{"cosine", 0, 51, 101, 0.6},
                      Case{"cosine", 0, 26, 101, 0.2 + 0.8 * (0.5 + std::sqrt(2.0) / 4)},
                      Case{"cosine", 0, 101, 101, 0.2}, Case{"cosine", 4, 2, 101, 0.5},
                      Case{"cosine", 1, 1, 1, 1.0}, Case{"linear", 0, 1, 1, 1.0},
                      // A warm-up as long as the job ends at the peak.
                      Case{"cosine", 8, 8, 8, 1.0}, Case{"cosine", 8, 4, 8, 0.5}));

TEST(LearningRateAt, NeverLeavesItsRange) {
  for (const char* schedule : {"linear", "cosine"}) {
    v1::LearningRate rate;
    rate.set_schedule(schedule);
    rate.set_peak(3e-4);
    double before = 3e-4;
    for (uint64_t round = 1; round <= 997; ++round) {
      const double now = LearningRateAt(rate, round, 997);
      EXPECT_LE(now, before) << schedule << " " << round;
      EXPECT_GE(now, 0.0);
      before = now;
    }
    EXPECT_EQ(before, 0.0);
  }
}

}  // namespace
}  // namespace tally
