// A server that is killed, stopped, started twice, or watched for long.
#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/proc.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ServerFaultsTest, AKilledServerTakesItsJobUpAgain) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "200"));
  cluster.WaitForRound(job_id, 20);
  cluster.server().Kill();
  cluster.StartServer();
  EXPECT_THAT(cluster.Events(job_id), Contains("the server was restarted; the job goes on"));
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
  EXPECT_TRUE(cluster.worker("worker-0").running());
  EXPECT_TRUE(cluster.worker("worker-1").running());
  cluster.WaitForFreeWorkers(2);
  cluster.WaitForState(cluster.Submit({}), "SUCCEEDED");
}

// Whatever the server was at when it died: a round, a snapshot, workers that were catching up.
TEST(ServerFaultsTest, AServerKilledAgainAndAgainLosesNothing) {
  Cluster cluster;
  cluster.StartWorkers(2);
  JobText job = LongJob("{count: 2}", "150");
  job.more = "digest_every: 1\nsnapshot_every: 3\nevaluate_every: 10";
  const std::string job_id = cluster.Submit(job);
  for (const uint64_t round : {1, 30, 60, 90}) {
    cluster.WaitForRound(job_id, round);
    cluster.server().Kill();
    cluster.StartServer();
  }
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

// What a lo-fi worker has sent is on the server's disk; what it has not is sent from where it broke off.
TEST(ServerFaultsTest, AServerKilledAmidLocalRoundsLosesNothing) {
  Cluster cluster;
  cluster.StartWorkers(2);
  JobText job = LongJob("{count: 2}", "60");
  job.method = "{name: lofi, local: {steps: 2, optimiser: adamw, dtype: bf16},"
               " lofi: {outer: nesterov}}";
  job.more = "digest_every: 1\nsnapshot_every: 7\nchunk_elements: 64";
  const std::string job_id = cluster.Submit(job);
  for (const uint64_t round : {2, 15, 30}) {
    cluster.WaitForRound(job_id, round);
    cluster.server().Kill();
    cluster.StartServer();
  }
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

TEST(ServerFaultsTest, AResultOutlivesTheServer) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit({});
  cluster.WaitForState(job_id, "SUCCEEDED");
  const std::string before = Contents(cluster.Download(job_id) + "/model.safetensors");
  cluster.server().Kill();
  cluster.StartServer();
  EXPECT_EQ(Contents(CheckResult(cluster, job_id) + "/model.safetensors"), before);
}

TEST(ServerFaultsTest, ACancelledJobStaysCancelled) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string running = cluster.Submit(LongJob("{count: 2}", "100000"));
  const std::string queued = cluster.Submit({.name = "queued"});
  cluster.WaitForRound(running, 5);
  for (const std::string& job_id : {queued, running}) {
    EXPECT_EQ(cluster.Tally({"cancel", job_id}).exit_code, 0);
  }
  cluster.server().Kill();
  cluster.StartServer();
  EXPECT_EQ(cluster.Status(running)["state"], "CANCELLED");
  EXPECT_EQ(cluster.Status(queued)["state"], "CANCELLED");
  cluster.WaitForFreeWorkers(2);
  cluster.WaitForState(cluster.Submit({}), "SUCCEEDED");
  EXPECT_EQ(cluster.Status(running)["state"], "CANCELLED");
}

TEST(ServerFaultsTest, SigtermEndsTheServerThoughAJobRunsAndIsWatched) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "1000"));
  const auto watch = cluster.StartTally({"watch", job_id}, "watch.log");
  const auto follow = cluster.StartTally({"logs", job_id, "--follow"}, "follow.log");
  cluster.WaitForRound(job_id, 20);
  WaitUntil([&] { return Contents(cluster.File("watch.log")) != ""; }, [] { return "a watch"; });
  cluster.server().Signal(SIGTERM);
  EXPECT_EQ(cluster.server().Wait(), 0);
  EXPECT_TRUE(watch->running());
  cluster.StartServer();
  cluster.WaitForState(job_id, "SUCCEEDED");
  // Both went on over the restart.
  EXPECT_EQ(watch->Wait(), 0) << Contents(cluster.File("watch.log"));
  EXPECT_EQ(follow->Wait(), 0) << Contents(cluster.File("follow.log"));
  CheckResult(cluster, job_id);
}

size_t ErrorLines(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const auto& line) {
    return absl::StartsWith(line, "tally-server: ");
  }));
}

TEST(ServerFaultsTest, ASecondServerOnTheStateFolderIsRefused) {
  Cluster cluster;
  const std::string yaml =
      cluster.WriteServerYaml("127.0.0.1:0", "127.0.0.1:0", cluster.server_state());
  const Output refused = cluster.Run({TALLY_SERVER_PROGRAM, yaml});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(ErrorLines(refused.err), 1u) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("state_dir in use by another server"));
  EXPECT_THAT(refused.err, HasSubstr(cluster.server_state()));
  EXPECT_TRUE(cluster.TallyJson({"list"}).empty());
}

TEST(ServerFaultsTest, APortInUseIsNamed) {
  Cluster cluster;
  const std::string free = "127.0.0.1:0";
  const std::string second = cluster.File("second");
  const std::pair<std::string, std::string> cases[] = {
      {cluster.WriteServerYaml(cluster.address(), free, second), cluster.address()},
      {cluster.WriteServerYaml(free, cluster.status_address(), second), cluster.status_address()}};
  for (const auto& [yaml, address] : cases) {
    const Output refused = cluster.Run({TALLY_SERVER_PROGRAM, yaml});
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_EQ(ErrorLines(refused.err), 1u) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("tally-server: "));
    EXPECT_THAT(refused.err, HasSubstr(absl::StrCat(address, ": Address already in use")));
  }
}

TEST(ServerFaultsTest, AnIpv6LoopbackAddressIsServed) {
  if (!absl::StrContains(Contents("/proc/net/if_inet6"), "00000000000000000000000000000001")) {
    GTEST_SKIP() << "no IPv6 here";
  }
  Cluster cluster("1s", "[::1]:0");
  EXPECT_THAT(cluster.address(), ::testing::StartsWith("[::1]:"));
  cluster.StartWorkers(1);
  cluster.WaitForState(cluster.Submit({.workers = "{count: 1}"}), "SUCCEEDED");
}

TEST(ServerFaultsTest, RoundsCostNeitherMemoryNorDescriptors) {
  Cluster cluster;
  cluster.StartWorkers(1);
  const std::string job_id = cluster.Submit(
      {.workers = "{count: 1}", .rounds = "1500", .more = "snapshot_every: 50"});
  cluster.WaitForRound(job_id, 300);
  const pid_t pid = cluster.server().pid();
  const long memory = ResidentKilobytes(pid);
  const long descriptors = OpenDescriptors(pid);
  ASSERT_GT(memory, 0);
  cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_LT(ResidentKilobytes(pid), memory + 8 * 1024);
  EXPECT_LT(OpenDescriptors(pid), descriptors + 5);
}

}  // namespace
}  // namespace tally::testing
