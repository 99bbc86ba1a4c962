// A worker whose parameters are not the ledger's any more is found, named and put right.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/ledger_files.h"
#include "tests/system/long_job.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;

// After its 32nd round a bit of its memory flips; the comparison after round 35 finds it.
TEST(DriftTest, AFlippedBitIsFoundNamedAndPutRight) {
  Cluster cluster;
  cluster.StartWorker("worker-0");
  cluster.settings().worker_program = kWorkerWithFaults;
  cluster.settings().worker_environment = {{"TALLY_FAULT", "worker.flip_bit:EIO:32"}};
  cluster.StartWorker("worker-1");
  const std::string job_id = cluster.Submit(LongJob("{count: 2}", "100"));
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(CountLines(cluster.WorkerLog("worker-1"), "fault point worker.flip_bit: fails"), 1u);
  EXPECT_EQ(status["mismatches"], 1);
  const std::vector<std::string> events = cluster.Events(job_id);
  EXPECT_THAT(events, Contains(ContainsRegex("worker-1: round 35: .*differ.* in block ")).Times(1));
  EXPECT_THAT(events, Contains("worker-1: attached").Times(2));
  EXPECT_THAT(events, Contains("worker-0: attached").Times(1));
  const std::string folder = cluster.Download(job_id);
  EXPECT_EQ(DigestOfModel(cluster, job_id, folder), status["parameters_digest"]);
  EXPECT_EQ(FoldOfLedger(cluster, job_id), status["parameters_digest"]);
}

}  // namespace
}  // namespace tally::testing
