// FISH Mask over real processes: what the mask leaves out stays, and crashes do not lose the mask.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/update/mask.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/ledger_files.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

std::string SnapshotFolder(Cluster& cluster, const std::string& job_id, const std::string& round) {
  return absl::StrCat(cluster.server_state(), "/jobs/", job_id, "/snapshots/", round);
}

MaskPointer MaskOf(const Layout& layout, const std::string& snapshot) {
  auto mask = Mask::Parse(layout, Contents(snapshot + "/mask.pb"));
  if (!mask.ok()) GiveUp(mask.status().ToString());
  return *mask;
}

// The paper's own code decays what is off the mask; momentum moves what a former mask had. Here neither
// does: not a bit of it changes.
TEST(FishTest, BytesOffTheMaskStay) {
  for (const char* optimiser : {"{steps: 3, optimiser: sgd, momentum: 0.9}",
                                "{steps: 3, optimiser: adamw}", "{steps: 3, optimiser: lion, dtype: sign}"}) {
    Cluster cluster;
    cluster.StartWorkers(2);
    const std::string job_id = cluster.Submit(
        {.method = absl::StrCat("{name: fish, weight_decay: 0.5, local: ", optimiser,
                                ", fish: {mask_size: 200, samples: 16, refresh_every: 0}}"),
         .learning_rate = "{peak: 1e-2}",
         .rounds = "12",
         .more = "digest_every: 1"});
    cluster.WaitForState(job_id, "SUCCEEDED");
    const Layout layout = LayoutOf(cluster, job_id);
    const std::string folder = SnapshotFolder(cluster, job_id, "0000000013");  // a mask round, 12 others
    const MaskPointer mask = MaskOf(layout, folder);
    EXPECT_EQ(mask->size(), 200u);
    const std::vector<float> before =
        ReadParameters(layout, SnapshotFolder(cluster, job_id, "0000000000"));
    const std::vector<float> after = ReadParameters(layout, folder);
    std::vector<bool> in_mask(layout.size());
    for (const uint64_t index : mask->FlatIndices()) in_mask[index] = true;
    size_t moved = 0;
    for (size_t i = 0; i < layout.size(); ++i) {
      const bool same = std::memcmp(&before[i], &after[i], sizeof(float)) == 0;
      ASSERT_TRUE(same || in_mask[i]) << "element " << i << " is off the mask";
      moved += !same;
    }
    EXPECT_GT(moved, 100u);
    CheckResult(cluster, job_id);
  }
}

JobText LongFishJob(const std::string& workers, const std::string& rounds) {
  JobText job = LongJob(workers, rounds);
  job.method = "{name: fish, local: {steps: 2, optimiser: adamw, dtype: bf16},"
               " fish: {density: 0.1, samples: 8, refresh_every: 4}}";
  job.more = "digest_every: 1\nsnapshot_every: 7\nchunk_elements: 256";
  return job;
}

TEST(FishTest, AServerKilledAmidItLosesNothing) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongFishJob("{count: 2}", "60"));
  for (const uint64_t round : {2, 12, 25, 40}) {
    cluster.WaitForRound(job_id, round);
    cluster.server().Kill();
    cluster.StartServer();
  }
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

// A worker that was not there when the mask was made gets it with the snapshot, or replays its round.
TEST(FishTest, WorkersKilledAndJoiningLateHaveTheMask) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(LongFishJob("{count: 2, quorum: 1, max: 3}", "80"));
  cluster.WaitForRound(job_id, 10);
  cluster.worker("worker-1").Kill();
  cluster.WaitForRound(job_id, 20);
  cluster.StartWorker("worker-1");
  cluster.StartWorker("worker-2");
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

TEST(FishTest, StatusTellsTheMask) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(
      {.method = "{name: fish, local: {steps: 1, optimiser: sgd}, fish: {mask_size: 99, samples: 8}}",
       .learning_rate = "{peak: 1e-2}",
       .rounds = "3"});
  cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(cluster.Status(job_id)["mask_size"], 99);
  EXPECT_THAT(cluster.Tally({"status", job_id}).out, HasSubstr("mask        99 of "));
}

// The head alone has 36 elements, and is always trained.
TEST(FishTest, AMaskSmallerThanTheHeadFailsTheJob) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit(
      {.method = "{name: fish, local: {steps: 1, optimiser: sgd}, fish: {mask_size: 35, samples: 8}}",
       .learning_rate = "{peak: 1e-2}"});
  const Json status = cluster.WaitForState(job_id, "FAILED");
  EXPECT_THAT(std::string(status["reason"]), HasSubstr("expected a mask of the head's 36 elements"));
}

}  // namespace
}  // namespace tally::testing
