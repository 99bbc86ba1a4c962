#include "tests/system/result.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

Layout LayoutOf(Cluster& cluster, const std::string& job_id) {
  v1::LayoutProto proto;
  EXPECT_TRUE(proto.ParseFromString(
      Contents(absl::StrCat(cluster.server_state(), "/jobs/", job_id, "/layout.pb"))));
  absl::StatusOr<Layout> layout = Layout::FromProto(proto);
  if (!layout.ok()) GiveUp(std::string(layout.status().message()));
  return *std::move(layout);
}

}  // namespace

std::string DigestOfModel(Cluster& cluster, const std::string& job_id, const std::string& folder) {
  const Layout layout = LayoutOf(cluster, job_id);
  const absl::StatusOr<std::unique_ptr<CheckpointReader>> model = CheckpointReader::Open(folder);
  if (!model.ok()) GiveUp(std::string(model.status().message()));
  EXPECT_TRUE(Json::accept((*model)->config_json())) << (*model)->config_json();
  EXPECT_EQ((*model)->tensors().size(), layout.tensors().size());
  std::vector<float> parameters(layout.size());
  for (const LayoutTensor& tensor : layout.tensors()) {
    const TensorInfo* info = (*model)->Find(tensor.name);
    if (info == nullptr) GiveUp(absl::StrCat("no tensor ", tensor.name));
    TALLY_EXPECT_OK((*model)->ReadAsFloat(
        *info, absl::MakeSpan(parameters).subspan(tensor.first, info->elements())));
  }
  return DigestToString(ParametersDigest(layout, parameters));
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
  return folder;
}

}  // namespace tally::testing
