// The server dies by its own hand at every place where that is interesting, is started again, and
// the job ends as if nothing had been.
#include <signal.h>

#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/fault_switch.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

constexpr char kLog[] = "fault point ";

struct CrashPoint {
  const char* name;
  const char* durability = "relaxed";
  // Passings from the server's start on; 0: the first one after some rounds.
  int passing = 0;
  const char* method = "vote";  // of kMethods
};

// A method, and what goes with it.
struct MethodOfJob {
  const char* name;
  const char* method;  // "": the long job's own
  const char* data = "{name: tiny, shuffle_buffer: 64}";
};

constexpr MethodOfJob kMethods[] = {
    {"vote", ""},
    {"lofi", "{name: lofi, local: {steps: 2, optimiser: adamw, dtype: bf16}, lofi: {outer: nesterov}}"},
    {"soup", "{name: lofi, local: {steps: 2, optimiser: sgd}, lofi: {soup: greedy}}",
     "{name: tiny, shuffle_buffer: 64, hold_out_every: 4}"},
    {"fish", "{name: fish, local: {steps: 2, optimiser: adamw}, fish: {density: 0.1, samples: 8,"
             " refresh_every: 3}}"},
    {"random", "{name: fish, local: {steps: 1, optimiser: sgd, dtype: sign}, fish: {density: 0.1,"
               " fisher: random, refresh_every: 3}}"},
};

void PrintTo(const CrashPoint& point, std::ostream* out) { *out << point.name; }

std::string NameOf(const CrashPoint& point) {
  std::string name = absl::StrReplaceAll(point.name, {{".", "_"}});
  if (point.passing > 0) absl::StrAppend(&name, "_", point.passing);
  if (point.method != std::string("vote")) absl::StrAppend(&name, "_", point.method);
  return absl::StrCat(name, point.durability == std::string("strict") ? "_strict" : "");
}

// Rounds by the hundred a second, with a snapshot every few and a segment every few dozen.
JobText ShortJob(const std::string& rounds) {
  JobText job = LongJob("{count: 2}", rounds);
  job.more = "digest_every: 5\nsnapshot_every: 10\nevaluate_every: 0";
  return job;
}

JobText JobAt(const CrashPoint& point) {
  const bool votes = point.method == std::string("vote");
  JobText job = ShortJob(votes ? "120" : "18");
  for (const MethodOfJob& method : kMethods) {
    if (method.name != std::string(point.method) || votes) continue;
    job.method = method.method;
    job.data = method.data;
    absl::StrAppend(&job.more, "\nchunk_elements: 256");
  }
  return job;
}

// A server that dies at a point once a file is there.
class CrashTest : public ::testing::Test {
 protected:
  void Start(const CrashPoint& point) {
    point_ = point.name;
    const std::string rule = absl::StrCat(point.name, ":kill:", std::max(point.passing, 1));
    cluster_ = std::make_unique<Cluster>(ClusterSettings{
        .server_program = kServerWithFaults,
        .server_yaml = absl::StrCat("durability: ", point.durability,
                                    "\nledger: {segment: 64KiB}"),
        .server_environment = {{"TALLY_FAULT", switch_.Rule(rule)}}});
    if (point.passing > 0) switch_.On();
    cluster_->StartWorkers(2);
  }

  void ExpectDeathAtPoint() {
    EXPECT_EQ(cluster_->server().Wait(), -SIGKILL);
    EXPECT_EQ(CountLines(cluster_->ServerLog(), absl::StrCat(kLog, point_, ": kill")), 1u);
  }
  // The product's own.
  void Restart() {
    cluster_->settings().server_program = kServerProgram;
    cluster_->settings().server_environment.clear();
    cluster_->StartServer();
  }

  const FaultSwitch switch_;
  std::string point_;
  std::unique_ptr<Cluster> cluster_;
};

class CrashPointTest : public CrashTest, public ::testing::WithParamInterface<CrashPoint> {};

TEST_P(CrashPointTest, LosesNothing) {
  Start(GetParam());
  // The reply may be lost with the server: the token finds the job again.
  const std::vector<std::string> submit = {"submit", cluster_->WriteJob(JobAt(GetParam())), "--token",
                                           "once"};
  if (GetParam().passing > 0) {
    cluster_->Tally(submit);
  } else {
    cluster_->WaitForRound(cluster_->TallyJson(submit)["job_id"], 12);
    switch_.On();
  }
  ExpectDeathAtPoint();
  Restart();
  const std::string job_id = cluster_->TallyJson(submit)["job_id"];
  cluster_->WaitForState(job_id, "SUCCEEDED");
  CheckResult(*cluster_, job_id);
  EXPECT_EQ(cluster_->TallyJson({"list"}).size(), 1u);
}

std::string ParamName(const ::testing::TestParamInfo<CrashPoint>& info) {
  return NameOf(info.param);
}

INSTANTIATE_TEST_SUITE_P(
    Round, CrashPointTest,
    ::testing::Values(CrashPoint{"round.after_reduction"}, CrashPoint{"round.mid_broadcast"},
                      CrashPoint{"round.before_announce"}, CrashPoint{"round.after_announce"}),
    ParamName);

INSTANTIATE_TEST_SUITE_P(
    Ledger, CrashPointTest,
    ::testing::Values(CrashPoint{"ledger.before_append"}, CrashPoint{"ledger.mid_record"},
                      CrashPoint{"ledger.after_append"}, CrashPoint{"ledger.before_sync"},
                      CrashPoint{"ledger.after_sync"}, CrashPoint{"segment.before_rename"},
                      // Of the first segment: there is no ledger yet.
                      CrashPoint{"segment.before_rename", "relaxed", 1}),
    ParamName);

INSTANTIATE_TEST_SUITE_P(
    Strict, CrashPointTest,
    ::testing::Values(CrashPoint{"ledger.mid_record", "strict"},
                      CrashPoint{"ledger.after_append", "strict"},
                      CrashPoint{"ledger.before_sync", "strict"},
                      CrashPoint{"ledger.after_sync", "strict"},
                      CrashPoint{"round.before_announce", "strict"}),
    ParamName);

INSTANTIATE_TEST_SUITE_P(
    Snapshot, CrashPointTest,
    ::testing::Values(CrashPoint{"snapshot.mid_write"}, CrashPoint{"snapshot.before_rename"},
                      CrashPoint{"snapshot.after_rename"}, CrashPoint{"fold.mid_pass"},
                      // Of the base.
                      CrashPoint{"snapshot.before_rename", "relaxed", 1},
                      CrashPoint{"snapshot.after_rename", "relaxed", 1}),
    ParamName);

// Amid an upload, a mask, a soup; of a mask round also the very first one.
INSTANTIATE_TEST_SUITE_P(
    Local, CrashPointTest,
    ::testing::Values(CrashPoint{"staging.after_chunk", "relaxed", 0, "lofi"},
                      CrashPoint{"round.after_reduction", "relaxed", 0, "lofi"},
                      CrashPoint{"staging.after_chunk", "relaxed", 0, "soup"},
                      CrashPoint{"round.mid_broadcast", "relaxed", 0, "soup"},
                      CrashPoint{"round.after_announce", "relaxed", 0, "soup"}),
    ParamName);

INSTANTIATE_TEST_SUITE_P(
    Mask, CrashPointTest,
    ::testing::Values(CrashPoint{"staging.after_chunk", "relaxed", 3, "fish"},
                      CrashPoint{"round.mid_broadcast", "relaxed", 1, "fish"},
                      CrashPoint{"ledger.mid_record", "relaxed", 1, "fish"},
                      CrashPoint{"ledger.after_append", "strict", 1, "fish"},
                      CrashPoint{"staging.after_chunk", "relaxed", 0, "fish"},
                      CrashPoint{"snapshot.mid_write", "relaxed", 0, "fish"},
                      CrashPoint{"round.mid_broadcast", "relaxed", 1, "random"},
                      CrashPoint{"ledger.after_append", "relaxed", 1, "random"},
                      CrashPoint{"snapshot.after_rename", "relaxed", 0, "random"}),
    ParamName);

// WAITING, RUNNING, FINALIZING and SUCCEEDED, before and after each.
INSTANTIATE_TEST_SUITE_P(
    Store, CrashPointTest,
    ::testing::Values(CrashPoint{"store.before_commit", "relaxed", 1},
                      CrashPoint{"store.after_commit", "relaxed", 1},
                      CrashPoint{"store.before_commit", "relaxed", 2},
                      CrashPoint{"store.after_commit", "relaxed", 2},
                      CrashPoint{"store.before_commit", "relaxed", 3},
                      CrashPoint{"store.after_commit", "relaxed", 3},
                      CrashPoint{"store.before_commit", "relaxed", 4},
                      CrashPoint{"store.after_commit", "relaxed", 4}),
    ParamName);

class CrashAtCancelTest : public CrashTest {
 protected:
  // The id of a job that was being cancelled when the server died.
  std::string DieWhileCancelling(const char* point) {
    Start({point});
    const std::string job_id = cluster_->Submit(ShortJob("100000"));
    cluster_->WaitForRound(job_id, 5);
    switch_.On();
    EXPECT_NE(cluster_->Tally({"cancel", job_id}).exit_code, 0);
    ExpectDeathAtPoint();
    Restart();
    return job_id;
  }
};

TEST_F(CrashAtCancelTest, CancelledStaysCancelled) {
  const std::string job_id = DieWhileCancelling("store.after_commit");
  EXPECT_EQ(cluster_->Status(job_id)["state"], "CANCELLED");
  cluster_->WaitForFreeWorkers(2);
  const std::string next = cluster_->Submit(ShortJob("20"));
  cluster_->WaitForState(next, "SUCCEEDED");
  EXPECT_EQ(cluster_->Status(job_id)["state"], "CANCELLED");
}

// Nobody was told that it was cancelled.
TEST_F(CrashAtCancelTest, WhatWasNotWrittenDownGoesOn) {
  const std::string job_id = DieWhileCancelling("store.before_commit");
  const uint64_t round = cluster_->Status(job_id)["round"];
  cluster_->WaitForRound(job_id, round + 5);
  EXPECT_EQ(cluster_->Tally({"cancel", job_id}).exit_code, 0);
  EXPECT_EQ(cluster_->Status(job_id)["state"], "CANCELLED");
  cluster_->WaitForFreeWorkers(2);
}

}  // namespace
}  // namespace tally::testing
