// No room on a disk: what needs it waits and says so, nothing is torn, and it goes on by itself.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/fault_switch.h"
#include "tests/system/ledger_files.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"
#include "tests/system/small_disk.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kNoSpace[] = "No space left on device";

void ExpectPausedForSpace(Cluster& cluster, const std::string& job_id) {
  const Json paused = cluster.WaitForState(job_id, "PAUSED");
  EXPECT_THAT(paused["reason"].get<std::string>(), HasSubstr(kNoSpace));
}

TEST(DiskFullTest, AJobPausesWhileTheServersDiskIsFull) {
  const TempFolder folder;
  const SmallDisk disk(folder.File("state"), 4 << 20);
  if (!disk.error().empty()) GTEST_SKIP() << disk.error();
  Cluster cluster(ClusterSettings{.server_state = folder.File("state")});
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "150"));
  cluster.WaitForRound(job_id, 5);
  disk.Fill(64 << 10);
  ExpectPausedForSpace(cluster, job_id);
  disk.MakeRoom();
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

// Whatever else is on that disk, a server that dies there leaves nothing torn either.
TEST(DiskFullTest, AServerKilledOnAFullDiskGoesOn) {
  const TempFolder folder;
  const SmallDisk disk(folder.File("state"), 4 << 20);
  if (!disk.error().empty()) GTEST_SKIP() << disk.error();
  Cluster cluster(ClusterSettings{.server_state = folder.File("state")});
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "150"));
  cluster.WaitForRound(job_id, 5);
  disk.Fill(64 << 10);
  ExpectPausedForSpace(cluster, job_id);
  cluster.server().Kill();
  disk.MakeRoom();
  cluster.StartServer();
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

TEST(DiskFullTest, AnAppendThatFailsPausesTheJob) {
  const FaultSwitch full;
  Cluster cluster(
      {.server_program = kServerWithFaults,
       .server_environment = {{"TALLY_FAULT", full.Rule("ledger.append_errno:ENOSPC")}}});
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100"));
  cluster.WaitForRound(job_id, 5);
  full.On();
  ExpectPausedForSpace(cluster, job_id);
  full.Off();
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

// The rounds go on: a snapshot saves time, it holds nothing that the ledger does not.
TEST(DiskFullTest, ASnapshotThatFailsIsToldAndMadeLater) {
  const FaultSwitch full;
  Cluster cluster({.server_program = kServerWithFaults,
                   .server_environment = {{"TALLY_FAULT", full.Rule("snapshot.errno:ENOSPC")}}});
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "120"));
  cluster.WaitForRound(job_id, 5);
  full.On();
  cluster.WaitForStatus(job_id, "the last round", [](const Json& status) {
    return status["state"] == "FINALIZING" && status["reason"].get<std::string>() != "";
  });
  EXPECT_THAT(cluster.Events(job_id), Contains(HasSubstr(kNoSpace)));
  full.Off();
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

// A worker's checkpoint saves its own state alone: the job does not wait for it.
TEST(DiskFullTest, AWorkersFullDiskCostsItsCheckpointAlone) {
  Cluster cluster(ClusterSettings{.worker_yaml = "checkpoint_every: 1s"});
  const SmallDisk disk(cluster.File("state-worker-0"), 2 << 20);
  if (!disk.error().empty()) GTEST_SKIP() << disk.error();
  disk.Fill(4 << 10);
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100000"));
  const std::string log = cluster.WorkerLog("worker-0");
  WaitUntil([&] { return CountLines(log, kNoSpace) > 0; }, [] { return "a failed checkpoint"; });
  const uint64_t round = cluster.Status(job_id)["round"];
  cluster.WaitForRound(job_id, round + 5);
  cluster.worker("worker-0").Kill();
  cluster.StartWorker("worker-0");
  cluster.WaitForRound(job_id, cluster.Status(job_id)["round"].get<uint64_t>() + 5);
  EXPECT_EQ(cluster.Tally({"cancel", job_id}).exit_code, 0);
  cluster.worker("worker-0").Signal(SIGTERM);
  EXPECT_EQ(cluster.worker("worker-0").Wait(), 0);
}

}  // namespace
}  // namespace tally::testing
