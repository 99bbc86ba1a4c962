// Anything may happen to anybody in the course of one job, and nothing is lost.
//
//   TALLY_CHAOS_SEED, TALLY_CHAOS_FAULTS: replay a run, or make a longer one (tests/chaos.sh).
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/chaos_faults.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/proc.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

constexpr int kWorkers = 4;
constexpr uint64_t kRoundsAFault = 40;
// Faults of a part before the first sample: what is made once is made.
constexpr size_t kWarm = 4;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) GiveUp(absl::StrCat(name, ": no number: ", text));
  return number;
}

TEST(ChaosScheduleTest, IsAFunctionOfItsSeed) {
  const auto text = [](uint64_t seed) {
    std::string all;
    for (const Fault& fault : MakeSchedule(seed, 45, 1000)) all += fault.ToString() + "\n";
    return all;
  };
  EXPECT_EQ(text(7), text(7));
  EXPECT_NE(text(7), text(8));
}

TEST(ChaosScheduleTest, HasEveryKindInOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Fault> faults = MakeSchedule(seed, 45, 1000);
    ASSERT_EQ(faults.size(), 45u);
    std::map<FaultKind, int> kinds;
    uint64_t round = 1;
    for (const Fault& fault : faults) {
      ++kinds[fault.kind];
      EXPECT_GE(fault.round, std::exchange(round, fault.round));
      EXPECT_EQ(fault.kind == FaultKind::kCrashServer, !fault.point.empty());
    }
    EXPECT_LE(round, 900u);
    EXPECT_EQ(kinds.size(), static_cast<size_t>(FaultKind::kAddWorker) + 1);
    EXPECT_EQ(kinds[FaultKind::kAddWorker], 1);
  }
}

// What a process holds that it may leak.
struct Use {
  long descriptors;
  long threads;
  long kilobytes;
};

Use UseOf(Process& process) {
  return {OpenDescriptors(process.pid()), ThreadCount(process.pid()),
          AnonymousKilobytes(process.pid())};
}

// A stream that is left behind with each fault of a part would be more.
void ExpectFlat(const std::string& who, const Use& before, const Use& after, size_t faults,
                long kilobytes) {
  std::cout << absl::StrCat("  ", who, " over ", faults, " faults: descriptors ",
                            before.descriptors, " -> ", after.descriptors, ", threads ",
                            before.threads, " -> ", after.threads, ", memory ", before.kilobytes,
                            " -> ", after.kilobytes, " kB\n");
  EXPECT_LE(after.descriptors, before.descriptors + 4) << who;
  EXPECT_LE(after.threads, before.threads + 4) << who;
  EXPECT_LE(after.kilobytes, before.kilobytes + kilobytes) << who;
}

class ChaosTest : public ::testing::Test {
 protected:
  ChaosTest()
      : seed_(FromEnvironment("TALLY_CHAOS_SEED", 1)),
        faults_(MakeSchedule(seed_, FromEnvironment("TALLY_CHAOS_FAULTS", 45),
                             kRoundsAFault * FromEnvironment("TALLY_CHAOS_FAULTS", 45))),
        cluster_({.heartbeat = "250ms",
                  .server_program = kServerWithFaults,
                  .server_yaml = "ledger: {segment: 256KiB}",
                  .server_environment = {{"TALLY_FAULT", points_.Rules()}}}),
        proxy_(cluster_.address()) {
    cluster_.settings().worker_connects = proxy_.address();
  }

  std::string Submit() {
    JobText job = LongJob("{count: 4, max: 5, quorum: 2, minimum: 2, round_deadline: 1s}",
                          absl::StrCat(kRoundsAFault * faults_.size()));
    job.more = "digest_every: 5\nsnapshot_every: 20\nevaluate_every: 100";
    return cluster_.Submit(job);
  }

  // One of the schedule's three parts, with what `who` holds after some faults and at its end.
  void DoPart(size_t begin, size_t end, const std::vector<std::string>& who, long kilobytes) {
    std::map<std::string, Use> before;
    for (size_t i = begin; i < end; ++i) {
      if (i == begin + kWarm) before = Sample(who);
      chaos_->Do(faults_[i]);
    }
    if (before.empty()) return;
    for (const auto& [name, use] : Sample(who)) {
      ExpectFlat(name, before.at(name), use, end - begin - kWarm, kilobytes);
    }
  }

  std::map<std::string, Use> Sample(const std::vector<std::string>& who) {
    if (who.empty()) return {};
    chaos_->WaitForAll();
    std::map<std::string, Use> uses;
    for (const std::string& name : who) {
      uses.emplace(name, UseOf(name == "server" ? cluster_.server() : cluster_.worker(name)));
    }
    return uses;
  }

  void DoAll() {
    const size_t part = faults_.size() / 3;
    DoPart(0, part, {"server"}, 16 << 10);
    DoPart(part, 2 * part, {"worker-0", "worker-1", "worker-2", "worker-3"}, 64 << 10);
    DoPart(2 * part, faults_.size(), {}, 0);
  }

  void TearDown() override {
    if (chaos_ == nullptr) return;
    std::cout << chaos_->report().Events() << "chaos: seed " << seed_ << ", "
              << kRoundsAFault * faults_.size() << " rounds, " << chaos_->report().Summary()
              << std::endl;
  }

  const uint64_t seed_;
  const std::vector<Fault> faults_;
  const PointSwitches points_;
  Cluster cluster_;
  Proxy proxy_;
  std::unique_ptr<Chaos> chaos_;
};

TEST_F(ChaosTest, NothingIsLost) {
  std::cout << "chaos: seed " << seed_ << ", " << faults_.size() << " faults" << std::endl;
  cluster_.StartWorkers(kWorkers);
  const std::string job_id = Submit();
  chaos_ = std::make_unique<Chaos>(&cluster_, &proxy_, &points_, job_id, kWorkers);
  DoAll();
  chaos_->WaitForRound(kRoundsAFault * faults_.size());
  cluster_.WaitForState(job_id, "SUCCEEDED");
  chaos_->CheckWorkers();
  EXPECT_EQ(chaos_->report().recovered(), faults_.size());
  CheckResult(cluster_, job_id);
}

}  // namespace
}  // namespace tally::testing
