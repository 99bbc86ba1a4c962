// lo-fi over real processes: a round half done outlives its worker, progress is told, a greedy soup.
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/reader.h"
#include "tests/system/cluster.h"
#include "tests/system/ledger_files.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// What the job's status says of a worker's local steps; 0 before it says any.
int StepsDone(Cluster& cluster, const std::string& job_id, int worker) {
  const Json status = cluster.Status(job_id);
  if (static_cast<int>(status["workers"].size()) <= worker) return 0;
  const Json& progress = status["workers"][worker]["progress"];
  return progress.contains("done") ? progress["done"].get<int>() : 0;
}

TEST(LofiTest, AWorkerKilledAmidARoundGoesOnAtItsCheckpoint) {
  Cluster cluster("100ms");
  cluster.settings().worker_yaml = "checkpoint_every: 1s";
  cluster.StartWorkers(2);
  const std::string job_id =
      cluster.Submit({.method = "{name: lofi, local: {steps: 15000, optimiser: adamw}}",
                      .learning_rate = "{schedule: cosine, peak: 1e-3}",
                      .rounds = "1"});
  WaitUntil([&] { return StepsDone(cluster, job_id, 1) > 1; }, [] { return "local steps"; });
  WaitUntil(
      [&] {
        return absl::StrContains(Contents(cluster.File("worker-worker-1.log")), "writing it took");
      },
      [] { return "a checkpoint"; });
  const Json status = cluster.Status(job_id);
  EXPECT_EQ(status["phase"], "local steps");
  EXPECT_EQ(status["workers"][1]["progress"]["total"], 15000);
  EXPECT_GT(status["workers"][1]["progress"]["loss"], 0);
  cluster.worker("worker-1").Kill();
  cluster.StartWorker("worker-1");
  cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_THAT(cluster.Events(job_id),
              Contains(::testing::ContainsRegex("worker-1: round 1: goes on after local step [0-9]+ of 15000")));
  CheckResult(cluster, job_id);
}

TEST(LofiTest, AGreedySoupIsOfTheWorkersThatTheScoresHaveChosen) {
  Cluster cluster;
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(
      {.data = "{name: tiny, shuffle_buffer: 64, hold_out_every: 4}",
       .method = "{name: lofi, local: {steps: 20, optimiser: adamw}, lofi: {soup: greedy}}",
       .learning_rate = "{peak: 1e-2}",
       .workers = "{count: 3}",
       .rounds = "2"});
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
  ASSERT_FALSE(status["soup"].empty());
  EXPECT_LE(status["soup"].size(), 3u);
  const Layout layout = LayoutOf(cluster, job_id);
  const auto reader = LedgerReader::Open(LedgerFolder(cluster, job_id), layout.digest());
  if (!reader.ok()) GiveUp(reader.status().ToString());
  const auto last = reader->Read(2);
  if (!last.ok()) GiveUp(last.status().ToString());
  EXPECT_EQ(Json(std::vector<uint32_t>(last->closed.voters().begin(), last->closed.voters().end())),
            status["soup"]);
  // The best one alone, with one more, with yet another one or it instead: three averages a round.
  int trials = 0;
  for (const std::string& event : cluster.Events(job_id)) {
    trials += absl::StrContains(event, "held-out rows right") ? 1 : 0;
  }
  EXPECT_EQ(trials, 2 * 3);
}

// A worker that goes while averages are scored is done without; a server that goes begins them anew.
TEST(LofiTest, AGreedySoupOutlivesItsWorkersAndItsServer) {
  Cluster cluster;
  cluster.StartWorkers(3);
  const std::string job_id = cluster.Submit(
      {.data = "{name: tiny, shuffle_buffer: 64, hold_out_every: 4}",
       .method = "{name: lofi, local: {steps: 4, optimiser: sgd}, lofi: {soup: greedy}}",
       .learning_rate = "{peak: 1e-2}",
       .workers = "{count: 3, quorum: 2, round_deadline: 20s}",
       .rounds = "25",
       .more = "digest_every: 1"});
  cluster.WaitForRound(job_id, 3);
  cluster.worker("worker-2").Kill();
  cluster.WaitForRound(job_id, 8);
  cluster.StartWorker("worker-2");
  cluster.server().Kill();
  cluster.StartServer();
  cluster.WaitForRound(job_id, 12);
  for (const char* worker : {"worker-0", "worker-1", "worker-2"}) cluster.worker(worker).Kill();
  for (const char* worker : {"worker-0", "worker-1", "worker-2"}) cluster.StartWorker(worker);
  cluster.WaitForState(job_id, "SUCCEEDED");
  CheckResult(cluster, job_id);
}

}  // namespace
}  // namespace tally::testing
