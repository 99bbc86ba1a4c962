#include "common/base/clock.h"

#include "gtest/gtest.h"

namespace tally {
namespace {

TEST(Clock, ManualStandsStillUntilTold) {
  ManualClock clock;
  const absl::Duration start = clock.Steady();
  EXPECT_EQ(clock.Steady(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Steady() - start, absl::Seconds(3));
  EXPECT_EQ(clock.Wall(), absl::UnixEpoch() + absl::Seconds(3));
}

TEST(Clock, SystemNeverGoesBack) {
  absl::Duration last = Clock::System().Steady();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = Clock::System().Steady();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(Clock::System().Wall(), absl::UnixEpoch());
}

}  // namespace
}  // namespace tally
