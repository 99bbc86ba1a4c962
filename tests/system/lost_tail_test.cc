// A machine crash takes what was not synced (durability `relaxed`): workers that still hold those
// rounds hand them back, and what nobody holds is done again.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/fault_switch.h"
#include "tests/system/ledger_files.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Rounds without a sync that a test waits for.
constexpr uint64_t kUnsynced = 10;

class LostTailTest : public ::testing::Test {
 protected:
  LostTailTest()
      : cluster_({.server_program = kServerWithFaults,
                  .server_environment = {
                      {"TALLY_FAULT", absl::StrCat(sync_.Rule("ledger.before_sync:kill"), ",",
                                                   hand_back_.Rule("handback.mid:kill:3"))}}}) {
    cluster_.StartWorkers(2);
  }

  // The server dies before a sync; what it had written is known.
  void DieUnsynced() {
    JobText job = LongJob("{count: 2, round_deadline: 20s}", "300");
    job.more = "digest_every: 5\nsnapshot_every: 100\nevaluate_every: 0";
    job_id_ = cluster_.Submit(job);
    cluster_.WaitForRound(job_id_, 3);
    ledger_ = LedgerFolder(cluster_, job_id_);
    WaitUntil(
        [this] {
          last_ = ListRecords(ledger_).back();
          return last_.round - last_.synced >= kUnsynced;
        },
        [] { return "rounds that are not synced"; });
    sync_.On();
    EXPECT_EQ(cluster_.server().Wait(), -SIGKILL);
    sync_.Off();
    last_ = ListRecords(ledger_).back();
    before_ = ReadRounds(cluster_, job_id_);
    ASSERT_EQ(before_.size(), last_.round);
    ASSERT_GE(last_.round - last_.synced, kUnsynced);
  }

  // All but the last one: the server may have died before it announced that, and then nobody has it.
  void ExpectRoundsAsBefore() {
    const std::vector<std::string> after = ReadRounds(cluster_, job_id_);
    ASSERT_GE(after.size(), before_.size());
    for (size_t i = 0; i + 1 < before_.size(); ++i) {
      EXPECT_EQ(after[i], before_[i]) << "round " << i + 1 << " of " << before_.size();
    }
  }

  const FaultSwitch sync_, hand_back_;
  Cluster cluster_;
  std::string job_id_, ledger_;
  RecordAt last_;
  std::vector<std::string> before_;
};

struct Loss {
  const char* name;
  uint64_t rounds;   // at most what was not synced
  double torn_part;  // of the first lost record
};

void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.name; }

class HandBackTest : public LostTailTest, public ::testing::WithParamInterface<Loss> {
 protected:
  // The whole rounds that stay.
  uint64_t Lose() {
    const uint64_t kept =
        last_.round - std::min(GetParam().rounds, last_.round - last_.synced);
    const RecordAt first = ListRecords(ledger_).at(kept);
    LoseRoundsAfter(ledger_, kept, static_cast<uint64_t>(
        GetParam().torn_part * static_cast<double>(first.end - first.begin)));
    EXPECT_EQ(ListRecords(ledger_).size(), kept);
    return kept;
  }
};

TEST_P(HandBackTest, NoRoundIsDoneAgain) {
  DieUnsynced();
  const uint64_t kept = Lose();
  cluster_.StartServer();
  cluster_.WaitForState(job_id_, "SUCCEEDED");
  EXPECT_THAT(cluster_.Events(job_id_),
              Contains(HasSubstr(absl::StrCat("hands back rounds ", kept + 1, " to "))).Times(1));
  ExpectRoundsAsBefore();
  CheckResult(cluster_, job_id_);
}

INSTANTIATE_TEST_SUITE_P(LostTail, HandBackTest,
                         ::testing::Values(Loss{"Two", 2, 0}, Loss{"TwoTorn", 2, 0.5},
                                           Loss{"TwoTornInTheHead", 2, 0.005}, Loss{"Seven", 7, 0},
                                           Loss{"All", 1000, 0}, Loss{"AllTorn", 1000, 0.9}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(LostTailTest, AServerThatDiesWhileRoundsAreHandedBackAsksAgain) {
  DieUnsynced();
  LoseRoundsAfter(ledger_, last_.round - 8);
  hand_back_.On();
  cluster_.StartServer();
  EXPECT_EQ(cluster_.server().Wait(), -SIGKILL);
  EXPECT_EQ(CountLines(cluster_.ServerLog(), "fault point handback.mid: kill"), 1u);
  hand_back_.Off();
  cluster_.StartServer();
  cluster_.WaitForState(job_id_, "SUCCEEDED");
  ExpectRoundsAsBefore();
  CheckResult(cluster_, job_id_);
}

// One of two still holds them.
TEST_F(LostTailTest, OneWorkerIsEnough) {
  DieUnsynced();
  LoseRoundsAfter(ledger_, last_.round - 5);
  cluster_.worker("worker-0").Kill();
  cluster_.StartServer();
  cluster_.StartWorker("worker-0");
  cluster_.WaitForState(job_id_, "SUCCEEDED");
  EXPECT_THAT(cluster_.Events(job_id_), Contains(HasSubstr("worker-1: hands back rounds ")));
  ExpectRoundsAsBefore();
  CheckResult(cluster_, job_id_);
}

// Nobody has them: done again, and who was ahead is named and starts from a snapshot.
TEST_F(LostTailTest, WhatNobodyHoldsIsDoneAgain) {
  DieUnsynced();
  LoseRoundsAfter(ledger_, last_.round - 5);
  for (const char* name : {"worker-0", "worker-1"}) {
    cluster_.worker(name).Signal(SIGTERM);  // leaves a checkpoint of parameters that are ahead
    EXPECT_EQ(cluster_.worker(name).Wait(), 0);
  }
  cluster_.StartServer();
  cluster_.StartWorkers(2);
  cluster_.WaitForState(job_id_, "SUCCEEDED");
  const std::vector<std::string> events = cluster_.Events(job_id_);
  EXPECT_THAT(events, Not(Contains(HasSubstr("hands back"))));
  for (const char* name : {"worker-0", "worker-1"}) {
    EXPECT_THAT(events, Contains(AllOf(HasSubstr(absl::StrCat(name, ": is at round ")),
                                       HasSubstr("gets a snapshot"))));
  }
  CheckResult(cluster_, job_id_);
}

}  // namespace
}  // namespace tally::testing
