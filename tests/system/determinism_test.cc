// Two runs of a job with the same seed, workers and data leave the same bytes.
#include <filesystem>
#include <map>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/ledger_files.h"

namespace tally::testing {
namespace {

struct Replay {
  const char* name;
  const char* method;
  int workers;
};

void PrintTo(const Replay& replay, std::ostream* out) { *out << replay.name; }

class ReplayTest : public ::testing::TestWithParam<Replay> {
 protected:
  ReplayTest() { cluster_.StartWorkers(GetParam().workers); }

  std::string Train(const std::string& seed) {
    const std::string job_id = cluster_.Submit(
        {.method = GetParam().method,
         .workers = absl::StrCat("{count: ", GetParam().workers, "}"),
         .more = absl::StrCat("snapshot_every: 15\nchunk_elements: 256\nseed: ", seed)});
    cluster_.WaitForState(job_id, "SUCCEEDED");
    return job_id;
  }

  // By path within the folder.
  std::map<std::string, std::string> Snapshots(const std::string& job_id) {
    const std::string folder = absl::StrCat(cluster_.server_state(), "/jobs/", job_id, "/snapshots");
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (entry.is_regular_file()) files[path.substr(folder.size())] = Contents(path);
    }
    return files;
  }

  Cluster cluster_;
};

TEST_P(ReplayTest, TheSameSeedGivesTheSameBytes) {
  const std::string first = Train("7"), again = Train("7"), other = Train("8");
  EXPECT_EQ(ReadRounds(cluster_, first), ReadRounds(cluster_, again));
  EXPECT_GE(Snapshots(first).size(), 2u * 3);
  EXPECT_TRUE(Snapshots(first) == Snapshots(again));
  EXPECT_FALSE(Snapshots(first) == Snapshots(other));
  EXPECT_NE(ReadRounds(cluster_, first), ReadRounds(cluster_, other));
}

INSTANTIATE_TEST_SUITE_P(
    Determinism, ReplayTest,
    ::testing::Values(Replay{"MajorityOfTwo", "{name: distributed_lion}", 2},
                      Replay{"MajorityOfThree", "{name: distributed_lion}", 3},
                      Replay{"AverageOfThree", "{name: distributed_lion, aggregation: average}", 3},
                      Replay{"GlobalLionOfThree", "{name: global_lion}", 3},
                      Replay{"GlobalAdamwOfThree", "{name: global_adamw}", 3}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tally::testing
