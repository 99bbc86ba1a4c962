// What people do to jobs and workers while they are at it: hold, drain, grow, replace, delete.
#include <signal.h>

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::string Text(const Json& value) { return value.get<std::string>(); }

size_t Attached(const Json& status) {
  size_t attached = 0;
  for (const Json& worker : status["workers"]) attached += worker["attached"] == true ? 1 : 0;
  return attached;
}

std::vector<std::string> Names(const Json& status) {
  std::vector<std::string> names;
  for (const Json& worker : status["workers"]) names.push_back(worker["name"]);
  return names;
}

Json Worker(Cluster& cluster, const std::string& name) {
  for (const Json& worker : cluster.TallyJson({"workers"})) {
    if (worker["name"] == name) return worker;
  }
  return {{"job_id", "no such worker"}};
}

TEST(OperationsTest, AHeldJobStaysHeldOverAServerKillAndGoesOnWhenResumed) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2, pause_limit: 1s}", "200"));
  cluster.WaitForRound(job_id, 10);
  const Json answer = cluster.TallyJson({"pause", job_id, "--reason", "moving the rack"});
  EXPECT_EQ(answer["held"], true);
  cluster.server().Kill();
  cluster.StartServer();
  const auto all_back = [](const Json& status) { return Attached(status) == 2; };
  const Json back = cluster.WaitForStatus(job_id, "both workers", all_back);
  EXPECT_EQ(back["held"], true);
  cluster.WaitForState(job_id, "PAUSED");
  cluster.server().Kill();
  cluster.StartServer();
  const Json held = cluster.WaitForStatus(job_id, "both workers, paused", [&](const Json& status) {
    return all_back(status) && status["state"] == "PAUSED";
  });
  EXPECT_THAT(Text(held["reason"]), HasSubstr("moving the rack"));
  EXPECT_EQ(held["round"], back["round"]);
  EXPECT_THAT(cluster.Tally({"status", job_id}).out, HasSubstr("PAUSED (held)"));
  EXPECT_EQ(cluster.Tally({"resume", job_id}).exit_code, 0);
  EXPECT_EQ(cluster.WaitForState(job_id, "SUCCEEDED")["held"], false);
  CheckResult(cluster, job_id);
  EXPECT_THAT(cluster.Events(job_id),
              IsSupersetOf({"held by a person: moving the rack", "no longer held"}));
  const Output late = cluster.Tally({"pause", job_id});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, HasSubstr(job_id + " has ended: SUCCEEDED"));
}

TEST(OperationsTest, AHeldJobInTheQueueLetsOthersAheadAndCanBeCancelled) {
  Cluster cluster;
  const std::string held = cluster.Submit({});
  EXPECT_EQ(cluster.TallyJson({"pause", held})["state"], "PENDING");
  cluster.server().Kill();
  cluster.StartServer();
  cluster.StartWorkers(2);
  const std::string other = cluster.Submit({});
  cluster.WaitForState(other, "SUCCEEDED");
  cluster.WaitForFreeWorkers(2);
  EXPECT_EQ(cluster.Status(held)["state"], "PENDING");
  EXPECT_EQ(cluster.Status(held)["reason"], "held by a person");
  EXPECT_EQ(cluster.TallyJson({"cancel", held})["state"], "CANCELLED");
}

TEST(OperationsTest, ADrainedWorkerLeavesItsJobWhichGoesOnWithTheOthers) {
  Cluster cluster;
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(LongJob("{count: 3, quorum: 2}", "400"));
  cluster.WaitForRound(job_id, 5);
  const Output drained =
      cluster.Tally({"workers", "drain", "worker-2", "--reason", "new disk", "--wait"});
  EXPECT_EQ(drained.exit_code, 0) << drained.err;
  EXPECT_THAT(drained.out, AllOf(HasSubstr(job_id + " goes on with 2 workers, quorum 2"),
                                 HasSubstr("worker-2 has left " + job_id)));
  EXPECT_EQ(Worker(cluster, "worker-2")["drained"], true);
  EXPECT_EQ(Worker(cluster, "worker-2")["job_id"], "");
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_THAT(Names(status), ::testing::ElementsAre("worker-0", "worker-1", ""));
  EXPECT_LT(status["workers"][2]["contributions"], 400);
  CheckResult(cluster, job_id);

  cluster.server().Kill();
  cluster.StartServer();
  const std::string next = cluster.Submit({.workers = "{count: 3}"});
  cluster.WaitForStatus(next, "its reason", [](const Json& pending) {
    return Text(pending["reason"]).find("2 free match; 1 drained") != std::string::npos;
  });
  EXPECT_EQ(cluster.Tally({"workers", "undrain", "worker-2"}).exit_code, 0);
  cluster.WaitForState(next, "SUCCEEDED");
  CheckResult(cluster, next);
}

// A worker that is stopped keeps the open round open, so that the job cannot end before the third
// has come.
TEST(OperationsTest, AJobGrowsFromTwoToThreeWorkersWhileItRuns) {
  Cluster cluster("10s");
  cluster.StartWorkers(2);
  const std::string job_id =
      cluster.Submit(LongJob("{count: 2, max: 3, round_deadline: 10m}", "200"));
  cluster.WaitForRound(job_id, 5);
  cluster.worker("worker-1").Signal(SIGSTOP);
  cluster.StartWorker("worker-2");
  cluster.WaitForStatus(job_id, "the third worker",
                        [](const Json& status) { return Attached(status) == 3; });
  cluster.worker("worker-1").Signal(SIGCONT);
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_THAT(Names(status), ::testing::ElementsAre("worker-0", "worker-1", "worker-2"));
  EXPECT_GT(status["workers"][2]["contributions"], 100);
  EXPECT_EQ(status["workers"][2]["last_round"], 200);
  CheckResult(cluster, job_id);
}

TEST(OperationsTest, ThePlaceOfAWorkerThatStaysAwayIsGivenToAnother) {
  Cluster cluster;
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(LongJob("{count: 2, replace_after: 300ms}", "200"));
  const Json before = cluster.WaitForRound(job_id, 5);
  EXPECT_THAT(Names(before), ::testing::ElementsAre("worker-0", "worker-1"));
  cluster.worker("worker-1").Kill();
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_THAT(Names(status), ::testing::ElementsAre("worker-0", "worker-2"));
  EXPECT_EQ(status["workers"][1]["last_round"], 200);
  CheckResult(cluster, job_id);
  cluster.StartWorker("worker-1");
  cluster.WaitForFreeWorkers(3);
}

TEST(OperationsTest, AJobWhoseFolderWasDeletedFailsAndItsResultIsSaidToBeGone) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string done = cluster.Submit({});
  cluster.WaitForState(done, "SUCCEEDED");
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100000"));
  cluster.WaitForRound(job_id, 5);
  cluster.server().Kill();
  for (const std::string& job : {done, job_id}) {
    std::filesystem::remove_all(cluster.server_state() + "/jobs/" + job);
  }
  cluster.StartServer();
  const Json status = cluster.WaitForState(job_id, "FAILED");
  EXPECT_THAT(Text(status["reason"]), HasSubstr("gone from the server's state directory"));
  EXPECT_FALSE(std::filesystem::exists(cluster.server_state() + "/jobs/" + job_id));
  const Output download = cluster.Tally({"download", done, "-o", cluster.File("model")});
  EXPECT_EQ(download.exit_code, 1);
  EXPECT_THAT(download.err,
              AllOf(HasSubstr("its model is gone"), Not(HasSubstr(cluster.server_state()))));
  cluster.WaitForFreeWorkers(2);
  cluster.WaitForState(cluster.Submit({}), "SUCCEEDED");
}

}  // namespace
}  // namespace tally::testing
