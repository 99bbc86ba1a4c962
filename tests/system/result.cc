#include "tests/system/result.h"

#include "absl/strings/match.h"
#include "common/base/digest.h"
#include "common/layout/chunk_grid.h"
#include "gtest/gtest.h"
#include "tests/system/ledger_files.h"

namespace tally::testing {

std::string DigestOfModel(Cluster& cluster, const std::string& job_id, const std::string& folder) {
  const Layout layout = LayoutOf(cluster, job_id);
  return DigestToString(ParametersDigest(layout, ReadParameters(layout, folder)));
}

std::string CheckResult(Cluster& cluster, const std::string& job_id) {
  const Json status = cluster.Status(job_id);
  EXPECT_EQ(status["state"], "SUCCEEDED") << status["reason"];
  EXPECT_EQ(status["mismatches"], 0);
  EXPECT_EQ(status["round"], status["spec"]["rounds"]);
  for (const std::string& event : cluster.Events(job_id)) {
    EXPECT_FALSE(absl::StrContains(event, "differ")) << event;
  }
  std::string folder = cluster.Download(job_id);
  EXPECT_EQ(DigestOfModel(cluster, job_id, folder), status["parameters_digest"]);
  EXPECT_EQ(FoldOfLedger(cluster, job_id), status["parameters_digest"]);
  ReadRounds(cluster, job_id);
  return folder;
}

}  // namespace tally::testing
