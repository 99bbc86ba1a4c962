// Workers that die, stall, come back, or pretend to be another.
#include <signal.h>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Json Worker(const Json& status, size_t index) {
  return status["workers"].size() > index ? status["workers"][index] : Json{{"attached", false}};
}

TEST(WorkerFaultsTest, AQuorumGoesOnWithoutAWorkerKilledInARound) {
  Cluster cluster;
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(LongJob("{count: 3, quorum: 2}", "100"));
  cluster.WaitForRound(job_id, 5);
  // A round that is open now waits for it, and so cannot close before it is dead.
  cluster.worker("worker-2").Signal(SIGSTOP);
  cluster.worker("worker-2").Kill();
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(Worker(status, 2)["attached"], false);
  EXPECT_LT(Worker(status, 2)["contributions"], 100);
  EXPECT_EQ(Worker(status, 0)["contributions"], 100);
  CheckResult(cluster, job_id);
  EXPECT_THAT(cluster.Events(job_id), Contains("worker-2: detached: its stream has ended"));
}

TEST(WorkerFaultsTest, AJobWithoutWorkersIsPausedUntilTheyAreBack) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-0").Kill();
  cluster.worker("worker-1").Kill();
  const Json paused = cluster.WaitForState(job_id, "PAUSED");
  EXPECT_THAT(paused["reason"].get<std::string>(), HasSubstr("0 attached, minimum 2"));
  cluster.StartWorkers(2);
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(Worker(status, 0)["last_round"], 100);
  CheckResult(cluster, job_id);
}

TEST(WorkerFaultsTest, APausedJobFailsAtItsLimit) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string job_id = cluster.Submit(LongJob("{count: 1, pause_limit: 1s}", "100000"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-0").Kill();
  const Json status = cluster.WaitForState(job_id, "FAILED");
  EXPECT_THAT(status["reason"].get<std::string>(), HasSubstr("pause limit of 1s"));
  cluster.StartWorkers(1);
  cluster.WaitForFreeWorkers(1);
  cluster.WaitForState(cluster.Submit({.workers = "{count: 1}"}), "SUCCEEDED");
}

TEST(WorkerFaultsTest, AStalledWorkerLosesItsLeaseAndCatchesUp) {
  Cluster cluster("250ms");
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(
      LongJob("{count: 3, quorum: 2, round_deadline: 10m}", "100"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-2").Signal(SIGSTOP);
  const Json without = cluster.WaitForStatus(
      job_id, "a round without worker-2",
      [](const Json& status) { return Worker(status, 2)["attached"] == false; });
  // Both others stalled, too: the job cannot end before worker-2 is back.
  cluster.worker("worker-1").Signal(SIGSTOP);
  cluster.WaitForState(job_id, "PAUSED");
  cluster.worker("worker-2").Signal(SIGCONT);
  cluster.WaitForStatus(job_id, "worker-2's return", [&](const Json& status) {
    return Worker(status, 2)["last_round"] > without["round"];
  });
  cluster.worker("worker-1").Signal(SIGCONT);
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(Worker(status, 2)["last_round"], 100);
  EXPECT_LT(Worker(status, 2)["contributions"], 100);
  CheckResult(cluster, job_id);
  EXPECT_EQ(cluster.worker("worker-2").running(), true);
}

TEST(WorkerFaultsTest, ARestartedWorkerGetsItsWorkBackAndASecondJob) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-1").Kill();
  cluster.StartWorker("worker-1");
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(status["workers"].size(), 2u);
  CheckResult(cluster, job_id);
  EXPECT_THAT(cluster.Events(job_id), Contains("worker-1: attached").Times(2));

  cluster.WaitForFreeWorkers(2);
  const std::string second = cluster.Submit({});
  cluster.WaitForState(second, "SUCCEEDED");
  CheckResult(cluster, second);
}

TEST(WorkerFaultsTest, AWorkerToldToStopLeavesAndTheJobWaitsForIt) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-0").Signal(SIGTERM);
  EXPECT_EQ(cluster.worker("worker-0").Wait(), 0);
  cluster.WaitForState(job_id, "PAUSED");
  cluster.StartWorker("worker-0");
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

TEST(WorkerFaultsTest, ASecondDaemonOfTheSameNameIsRefused) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string yaml = cluster.WriteWorkerYaml("worker-0", "another");
  const Output refused = cluster.Run({TALLY_WORKER_PROGRAM, yaml});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("tally-worker: "));
  EXPECT_THAT(refused.err, HasSubstr("worker name worker-0: in use by another daemon"));
  EXPECT_TRUE(cluster.worker("worker-0").running());
  cluster.WaitForFreeWorkers(1);
}

TEST(WorkerFaultsTest, ASecondDaemonOnTheSameStateFolderIsRefused) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string yaml = cluster.WriteWorkerYaml("other-name", "state-worker-0");
  const Output refused = cluster.Run({TALLY_WORKER_PROGRAM, yaml});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("worker.lock"));
  cluster.WaitForFreeWorkers(1);
}

}  // namespace
}  // namespace tally::testing
