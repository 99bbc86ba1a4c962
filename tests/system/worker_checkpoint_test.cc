// Workers that are stopped, killed and started again go on where they were.
#include <signal.h>

#include <filesystem>

#include "common/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRounds[] = "60";  // a multiple of digest_every: the end is compared

std::string CheckpointOf(Cluster& cluster, const std::string& worker, const std::string& job_id) {
  return cluster.File("state-" + worker + "/jobs/" + job_id + "/checkpoint.safetensors");
}

uint64_t RoundOf(const std::string& checkpoint) {
  const auto file = SafetensorsFile::Open(checkpoint);
  if (!file.ok()) GiveUp(std::string(file.status().message()));
  return std::stoull((*file)->metadata().at("round"));
}

// All have to contribute: what is left out would depend on the time.
JobText Job(const std::string& model = kSmallVit) {
  JobText job = LongJob("{count: 2, quorum: 2, round_deadline: 10m}", kRounds);
  job.model = model;
  return job;
}

// Digest of the result of the job that nothing happens to.
std::string Undisturbed(const JobText& job) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(job);
  cluster.WaitForState(job_id, "SUCCEEDED");
  return DigestOfModel(cluster, job_id, CheckResult(cluster, job_id));
}

void StopAndWait(Cluster& cluster, const std::vector<std::string>& workers) {
  for (const std::string& name : workers) cluster.worker(name).Signal(SIGTERM);
  for (const std::string& name : workers) EXPECT_EQ(cluster.worker(name).Wait(), 0);
}

struct Variant {
  const char* name;
  const char* model;
  const char* method;
};

class StoppedWorkersTest : public ::testing::TestWithParam<Variant> {};

TEST_P(StoppedWorkersTest, ChangeNoBitOfTheResult) {
  JobText job = Job(GetParam().model);
  job.method = GetParam().method;
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(job);
  cluster.WaitForRound(job_id, 10);
  StopAndWait(cluster, {"worker-0"});
  EXPECT_GE(RoundOf(CheckpointOf(cluster, "worker-0", job_id)), 9u);
  cluster.StartWorker("worker-0");
  cluster.WaitForRound(job_id, 25);
  StopAndWait(cluster, {"worker-0", "worker-1"});
  cluster.StartWorkers(2);
  cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(DigestOfModel(cluster, job_id, CheckResult(cluster, job_id)), Undisturbed(job));
  const std::vector<std::string> events = cluster.Events(job_id);
  EXPECT_THAT(events,
              Contains(HasSubstr("worker-0: resumes from its checkpoint of round")).Times(2));
  EXPECT_THAT(events, Contains(HasSubstr("worker-1: resumes from its checkpoint of round")));
  EXPECT_THAT(events, Not(Contains(HasSubstr("without a checkpoint"))));
  cluster.WaitForFreeWorkers(2);
  EXPECT_FALSE(std::filesystem::exists(cluster.File("state-worker-0/jobs/" + job_id)));
}

// Momentum on the worker; buffers and their rounds; the update rule's state.
INSTANTIATE_TEST_SUITE_P(
    WorkerCheckpoint, StoppedWorkersTest,
    ::testing::Values(
        Variant{"VitLion", kSmallVit, "{name: distributed_lion, weight_decay: 0.1}"},
        Variant{"ResnetLion",
                "{architecture: resnet_cifar, config: {depth: 8, num_labels: 4, image_size: 8}}",
                "{name: distributed_lion, weight_decay: 0.1}"},
        Variant{"VitAdamw", kSmallVit, "{name: global_adamw, weight_decay: 0.1}"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(WorkerCheckpointTest, AKilledWorkerGoesOnFromTheOneOnItsDisk) {
  Cluster cluster(ClusterSettings{.worker_yaml = "checkpoint_every: 1s\n"});
  cluster.StartWorkers(2);
  // It ends only after the worker is back: nobody can contribute for it.
  const std::string job_id =
      cluster.Submit(LongJob("{count: 2, quorum: 2, round_deadline: 10m}", "800"));
  const std::string checkpoint = CheckpointOf(cluster, "worker-1", job_id);
  cluster.WaitForStatus(job_id, "a checkpoint on disk",
                        [&](const Json&) { return std::filesystem::exists(checkpoint); });
  cluster.worker("worker-1").Kill();
  const uint64_t round = RoundOf(checkpoint);
  EXPECT_GT(round, 0u);
  cluster.StartWorker("worker-1");
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
  EXPECT_THAT(cluster.Events(job_id),
              Contains(HasSubstr("worker-1: resumes from its checkpoint of round " +
                                 std::to_string(round) + ": momentum, data position")));
}

// It dies between a checkpoint's bytes and its rename: the one before counts.
TEST(WorkerCheckpointTest, AWorkerThatDiesInTheMiddleOfACheckpointUsesTheOneBefore) {
  Cluster cluster(ClusterSettings{
      .worker_program = kWorkerWithFaults,
      .worker_yaml = "checkpoint_every: 1s\n",
      .worker_environment = {{"TALLY_FAULT", "worker.mid_checkpoint:kill:2"}}});
  cluster.StartWorkers(1);
  const std::string job_id = cluster.Submit(LongJob("{count: 1}", "100000"));
  EXPECT_EQ(cluster.worker("worker-0").Wait(), -SIGKILL);
  const std::string checkpoint = CheckpointOf(cluster, "worker-0", job_id);
  const std::string round = std::to_string(RoundOf(checkpoint));
  const std::filesystem::path folder = std::filesystem::path(checkpoint).parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);  // and a temporary
  cluster.settings().worker_environment.clear();
  cluster.StartWorker("worker-0");
  EXPECT_THAT(cluster.Events(job_id), Contains(HasSubstr("checkpoint of round " + round + ":")));
  cluster.WaitForRound(job_id, std::stoull(round) + 1);
  StopAndWait(cluster, {"worker-0"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(WorkerCheckpointTest, AWorkerWithoutItsCheckpointSaysSo) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(Job());
  cluster.WaitForRound(job_id, 10);
  cluster.worker("worker-1").Kill();
  cluster.StartWorker("worker-1");
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
  EXPECT_THAT(cluster.Events(job_id),
              Contains(HasSubstr("worker-1: starts without a checkpoint at round ")));
}

// Three layers of 2048 and a batch of 16384: a step takes seconds on any machine of today.
TEST(WorkerCheckpointTest, AStopDoesNotWaitForALongStep) {
  Cluster cluster(ClusterSettings{.worker_yaml = "stop_grace: 0s\n"});
  cluster.StartWorkers(1);
  JobText job = Job();
  job.model =
      "{architecture: mlp, config: {input_size: 192, hidden_sizes: [2048, 2048, 2048],"
      " num_labels: 4, hidden_act: relu}}";
  job.workers = "{count: 1}";
  job.batch_size = "16384";
  const std::string job_id = cluster.Submit(job);
  WaitUntil([&] { return CountLines(cluster.WorkerLog("worker-0"), "a step begins") > 0; },
            [] { return "a step"; });
  cluster.worker("worker-0").Signal(SIGTERM);
  EXPECT_EQ(cluster.worker("worker-0").Wait(), 0);
  EXPECT_EQ(CountLines(cluster.WorkerLog("worker-0"), "(stop_grace): leaving without it"), 1u);
  EXPECT_EQ(cluster.Tally({"cancel", job_id}).exit_code, 0);
}

TEST(WorkerCheckpointTest, AWorkerWithAWrongDataPathSaysSoAndDoesNotStart) {
  Cluster cluster;
  const std::string yaml = cluster.WriteWorkerYaml("worker-0", "other");
  std::filesystem::remove_all(cluster.File("data"));
  const Output checked = cluster.Run({kWorkerProgram, yaml, "--check"});
  EXPECT_EQ(checked.exit_code, 4);
  EXPECT_THAT(checked.err, HasSubstr("tally-worker: data.tiny: "));
  EXPECT_THAT(checked.err, HasSubstr(cluster.File("data")));
  const Output started = cluster.Run({kWorkerProgram, yaml});
  EXPECT_EQ(started.exit_code, 1);
  EXPECT_THAT(started.err, HasSubstr("tally-worker: data.tiny: "));
}

}  // namespace
}  // namespace tally::testing
