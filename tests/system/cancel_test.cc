// A cancelled job frees its workers and leaves nothing behind.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/proc.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

void RunAndCancel(Cluster& cluster) {
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100000"));
  cluster.WaitForRound(job_id, 5);
  const Output cancelled = cluster.Tally({"cancel", job_id});
  EXPECT_EQ(cancelled.exit_code, 0) << cancelled.err;
  const Json status = cluster.Status(job_id);
  EXPECT_EQ(status["state"], "CANCELLED");
  cluster.WaitForFreeWorkers(2);
  EXPECT_EQ(cluster.Status(job_id)["round"], status["round"]);
}

TEST(CancelTest, WorkersAreFreeAndTheNextJobRuns) {
  Cluster cluster;
  cluster.StartWorkers(2);
  RunAndCancel(cluster);
  const std::string next = cluster.Submit({});
  cluster.WaitForState(next, "SUCCEEDED");
  CheckResult(cluster, next);
}

TEST(CancelTest, NoThreadsAreLeftInTheWorker) {
  Cluster cluster;
  cluster.StartWorkers(2);
  RunAndCancel(cluster);  // also starts what a library starts once and keeps
  const pid_t pid = cluster.worker("worker-0").pid();
  const long before = ThreadCount(pid);
  for (int i = 0; i < 4; ++i) RunAndCancel(cluster);
  // gRPC's own pool may have grown by a thread or two, four jobs' threads would be eight or more.
  WaitUntil([&] { return ThreadCount(pid) < before + 4; },
            [&] { return absl::StrCat("threads to end: ", before, ", now ", ThreadCount(pid)); });
}

TEST(CancelTest, AWatchEndsWithTheJob) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string job_id = cluster.Submit(LongJob("{count: 1}", "100000"));
  const auto watch = cluster.StartTally({"watch", job_id}, "watch.log");
  cluster.WaitForRound(job_id, 5);
  EXPECT_EQ(cluster.Tally({"cancel", job_id}).exit_code, 0);
  EXPECT_EQ(watch->Wait(), 1);
  EXPECT_THAT(Contents(cluster.File("watch.log")), HasSubstr("CANCELLED"));
}

TEST(CancelTest, OnlyAJobThatHasNotEndedCanBeCancelled) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string job_id = cluster.Submit({.workers = "{count: 1}"});
  cluster.WaitForState(job_id, "SUCCEEDED");
  const Output late = cluster.Tally({"cancel", job_id});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, HasSubstr("SUCCEEDED"));
  EXPECT_EQ(cluster.Status(job_id)["state"], "SUCCEEDED");

  const std::string cancelled = cluster.Submit(LongJob("{count: 1}", "100000"));
  EXPECT_EQ(cluster.Tally({"cancel", cancelled}).exit_code, 0);
  EXPECT_EQ(cluster.Tally({"cancel", cancelled}).exit_code, 0);  // again is no error
  const Output download = cluster.Tally({"download", cancelled, "-o", cluster.File("none")});
  EXPECT_EQ(download.exit_code, 1);
  EXPECT_THAT(download.err, HasSubstr("CANCELLED"));
  EXPECT_FALSE(std::filesystem::exists(cluster.File("none")));
}

}  // namespace
}  // namespace tally::testing
