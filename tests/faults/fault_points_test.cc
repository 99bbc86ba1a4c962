#include <signal.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "common/base/fault_point.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"
#include "tests/faults/fault_plan.h"

namespace tally::testing {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;

FaultPlan Plan(absl::string_view text) {
  absl::StatusOr<FaultPlan> plan = FaultPlan::Parse(text);
  TALLY_EXPECT_OK(plan.status());
  return *std::move(plan);
}

TEST(FaultPlanTest, AKillIsDueAtItsPassingAlone) {
  FaultPlan plan = Plan("a.b:kill:2,c.d:kill");
  EXPECT_FALSE(plan.Passes("a.b"));
  EXPECT_TRUE(plan.Passes("a.b"));
  EXPECT_FALSE(plan.Passes("a.b"));
  EXPECT_TRUE(plan.Passes("c.d"));
  EXPECT_FALSE(plan.Passes("e.f"));
}

TEST(FaultPlanTest, AnErrnoIsEveryPassingOrOne) {
  FaultPlan plan = Plan("a.b:ENOSPC,c.d:EIO:2");
  EXPECT_EQ(plan.Errno("a.b"), ENOSPC);
  EXPECT_EQ(plan.Errno("a.b"), ENOSPC);
  EXPECT_EQ(plan.Errno("c.d"), 0);
  EXPECT_EQ(plan.Errno("c.d"), EIO);
  EXPECT_EQ(plan.Errno("c.d"), 0);
  EXPECT_FALSE(plan.Passes("a.b"));
}

TEST(FaultPlanTest, AFileSwitchesARuleOnAndOff) {
  const TempFolder folder;
  const std::string path = folder.File("switch");
  FaultPlan plan = Plan("a.b:ENOSPC:while=" + path + ",c.d:kill:2:while=" + path);
  EXPECT_EQ(plan.Errno("a.b"), 0);
  EXPECT_FALSE(plan.Passes("c.d"));
  TALLY_ASSERT_OK(WriteFileAtomically(path, ""));
  EXPECT_EQ(plan.Errno("a.b"), ENOSPC);
  EXPECT_FALSE(plan.Passes("c.d"));
  EXPECT_TRUE(plan.Passes("c.d"));
  std::filesystem::remove(path);
  EXPECT_EQ(plan.Errno("a.b"), 0);
}

// The caller writes the first half, passes the point, and would write the second.
TEST(FaultPlanTest, ALimitCutsTheWriteThatThePointDiesIn) {
  FaultPlan plan = Plan("a.b:kill:2");
  EXPECT_EQ(plan.Limit("a.b", 100), 100u);
  EXPECT_FALSE(plan.Passes("a.b"));
  EXPECT_EQ(plan.Limit("a.b", 100), 50u);
  EXPECT_TRUE(plan.Passes("a.b"));
  EXPECT_EQ(Plan("").Limit("a.b", 100), 100u);
}

TEST(FaultPlanTest, AWrongRuleIsNamed) {
  for (const char* text : {"a.b", ":kill", "a.b:maim", "a.b:kill:0", "a.b:kill:x", "a.b:EIO:-1"}) {
    EXPECT_THAT(FaultPlan::Parse(text).status().ToString(), HasSubstr(text)) << text;
  }
}

using FaultPointDeathTest = ::testing::Test;

TEST(FaultPointDeathTest, TheProcessKillsItself) {
  EXPECT_EXIT(
      {
        ::setenv("TALLY_FAULT", "a.b:kill", 1);
        FaultPoint("c.d");
        FaultPoint("a.b");
      },
      KilledBySignal(SIGKILL), "fault point a.b: kill");
}

TEST(FaultPointDeathTest, WithoutThePlanNothingHappens) {
  EXPECT_EXIT(
      {
        ::unsetenv("TALLY_FAULT");
        FaultPoint("a.b");
        std::exit(FaultErrno("a.b") == 0 && FaultLimit("a.b", 7) == 7 ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

bool Contains(const std::string& program, const std::string& text) {
  const absl::StatusOr<std::string> bytes = ReadFile(program);
  TALLY_EXPECT_OK(bytes.status());
  return absl::StrContains(*bytes, text);
}

// Nobody's environment makes the product kill itself.
TEST(ProductTest, HasNoFaults) {
  EXPECT_TRUE(Contains(TALLY_SERVER_WITH_FAULTS, "TALLY_FAULT"));
  EXPECT_FALSE(Contains(TALLY_SERVER_PROGRAM, "TALLY_FAULT"));
#ifdef TALLY_WORKER_PROGRAM
  EXPECT_TRUE(Contains(TALLY_WORKER_WITH_FAULTS, "TALLY_FAULT"));
  EXPECT_FALSE(Contains(TALLY_WORKER_PROGRAM, "TALLY_FAULT"));
#endif
}

}  // namespace
}  // namespace tally::testing
