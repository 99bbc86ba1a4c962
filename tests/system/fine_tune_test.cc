// Training that starts from a model: the result of another job.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kWorkers[] = "{count: 2}";

class FineTuneTest : public ::testing::Test {
 protected:
  FineTuneTest() {
    cluster_.StartWorkers(2);
    const std::string job_id = cluster_.Submit({});
    cluster_.WaitForState(job_id, "SUCCEEDED");
    base_ = cluster_.Download(job_id);
    base_loss_ = LossOf(job_id);
    cluster_.WaitForFreeWorkers(2);
  }
  double LossOf(const std::string& job_id) {
    const Json evaluation = cluster_.Status(job_id)["evaluation"];
    return evaluation["loss_sum"].get<double>() / evaluation["count"].get<double>();
  }
  std::string Model(const std::string& more = "") const {
    return absl::StrCat("{architecture: mlp, base: ", base_, more, "}");
  }
  // One round with a step so small that the result is the base, in all that a person would notice.
  JobText Still(const std::string& model) const {
    return {.model = model, .learning_rate = "{peak: 1e-9}", .workers = kWorkers, .rounds = "1"};
  }

  Cluster cluster_;
  std::string base_;
  double base_loss_ = 0;
};

TEST_F(FineTuneTest, GoesOnWhereTheBaseStopped) {
  const std::string still = cluster_.Submit(Still(Model()));
  cluster_.WaitForState(still, "SUCCEEDED");
  EXPECT_NEAR(LossOf(still), base_loss_, 1e-3);
  CheckResult(cluster_, still);

  const std::string tuned = cluster_.Submit({.model = Model(), .learning_rate = "{peak: 1e-3}"});
  cluster_.WaitForState(tuned, "SUCCEEDED");
  EXPECT_LT(LossOf(tuned), base_loss_);
  CheckResult(cluster_, tuned);
}

TEST_F(FineTuneTest, AResetHeadForgetsTheClassesOnly) {
  const std::string job_id = cluster_.Submit(Still(Model(", reset_head: true")));
  cluster_.WaitForState(job_id, "SUCCEEDED");
  EXPECT_GT(LossOf(job_id), base_loss_ + 0.1);
  CheckResult(cluster_, job_id);
}

TEST_F(FineTuneTest, AResetHeadMayHaveOtherClasses) {
  const std::string job_id = cluster_.Submit(Still(
      Model(", reset_head: true, config: {input_size: 192, hidden_sizes: [16, 8], num_labels: 7,"
            " hidden_act: relu}")));
  cluster_.WaitForState(job_id, "SUCCEEDED");
  const Json config = Json::parse(Contents(CheckResult(cluster_, job_id) + "/config.json"));
  EXPECT_EQ(config["num_labels"], 7);
}

TEST_F(FineTuneTest, ABaseOfOtherShapesFailsTheJobByTensor) {
  const Output output = cluster_.Tally(
      {"submit",
       cluster_.WriteJob(Still(Model(", config: {input_size: 192, hidden_sizes: [16, 9],"
                                     " num_labels: 4, hidden_act: relu}"))),
       "--watch"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("FAILED"));
  EXPECT_THAT(output.err, HasSubstr("[8, 16]")) << "names the shape that it found";
  cluster_.WaitForFreeWorkers(2);
}

TEST_F(FineTuneTest, ABaseCutShortIsRefusedBeforeAnythingIsSubmitted) {
  const std::string file = base_ + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 10);
  const size_t jobs = cluster_.TallyJson({"list"}).size();
  const Output output = cluster_.Tally({"submit", cluster_.WriteJob(Still(Model()))});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_THAT(output.err, HasSubstr(file));
  EXPECT_EQ(cluster_.TallyJson({"list"}).size(), jobs);
}

TEST_F(FineTuneTest, ABaseThatIsNotThereIsNamed) {
  const Output output = cluster_.Tally(
      {"submit", cluster_.WriteJob(Still("{architecture: mlp, base: nowhere}"))});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_THAT(output.err, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace tally::testing
