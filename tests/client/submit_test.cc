#include "common/checkpoint/hf_directory.h"
#include "nlohmann/json.hpp"
#include "tests/client/command_test.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Submit : public CommandTest {};

TEST_F(Submit, SendsTheFileAndPrintsTheId) {
  const Result result = Run({"submit", File("job.yaml", kJobYaml)});
  EXPECT_EQ(result.code, ExitCode::kOk) << result.err;
  EXPECT_EQ(result.out, "job-1\n");
  ASSERT_EQ(service().submissions.size(), 1u);
  EXPECT_EQ(service().submissions[0].spec().name(), "demo");
  EXPECT_EQ(service().submissions[0].token().size(), 32u);
}

TEST_F(Submit, TheSameTokenGivesTheSameJob) {
  const std::string file = File("job.yaml", kJobYaml);
  EXPECT_EQ(Run({"submit", file, "--token", "t"}).out, "job-1\n");
  const Result again = Run({"submit", file, "--token", "t"});
  EXPECT_EQ(again.out, "job-1\n");
  EXPECT_THAT(again.err, HasSubstr("submitted before"));
  EXPECT_EQ(Run({"submit", file}).out, "job-2\n");
}

TEST_F(Submit, ALostReplyMakesNoSecondJob) {
  service().lost_replies = 1;
  const Result result = Run({"submit", File("job.yaml", kJobYaml), "--json"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(nlohmann::json::parse(result.out).at("job_id"), "job-1");
  EXPECT_EQ(service().submissions.size(), 2u);
  EXPECT_EQ(service().job_of_token.size(), 1u);
}

TEST_F(Submit, BadTokenAndBadFileNeverReachTheServer) {
  const std::string file = File("job.yaml", kJobYaml);
  EXPECT_EQ(Run({"submit", file, "--token", "a b"}).code, ExitCode::kBadArguments);
  const std::string bad = File("bad.yaml", "name: x\nrounds: 0\n");
  const Result result = Run({"submit", bad});
  EXPECT_EQ(result.code, ExitCode::kBadArguments);
  EXPECT_THAT(result.err, HasSubstr(bad + ":2: rounds: "));
  EXPECT_TRUE(service().submissions.empty());
}

TEST_F(Submit, WatchesToTheEnd) {
  service().watches = {{StatusOf(v1::RUNNING, 1), StatusOf(v1::SUCCEEDED, 10)}};
  const Result result = Run({"submit", File("job.yaml", kJobYaml), "--watch"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_THAT(result.out, AllOf(HasSubstr("job-1\n"), HasSubstr("SUCCEEDED  round 10/10")));
}

constexpr char kWithBase[] = R"(name: demo
model: {architecture: mlp, base: base}
data: {name: digits}
method: {name: distributed_lion}
learning_rate: {peak: 1e-3}
rounds: 10
batch_size: 4
workers: {count: 2}
)";

TEST_F(Submit, UploadsTheBaseInParts) {
  const uint64_t elements = 700'000;  // 2.8 MB: three parts
  HfWriterOptions options;
  options.config_json = R"({"hidden": [8]})";
  auto writer = HfDirectoryWriter::Create(
      folder() + "/base", {TensorInfo{"w", DType::kF32, {elements}, 0, 0}}, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(std::vector<float>(elements, 1.5f)).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const Result result = Run({"submit", File("job.yaml", kWithBase)});
  ASSERT_EQ(result.code, ExitCode::kOk) << result.err;
  EXPECT_THAT(service().upload_order, ElementsAre("config.json", "model.safetensors"));
  EXPECT_GT(service().uploaded["model.safetensors"].size(), elements * 4);
  EXPECT_EQ(service().largest_part, size_t{1} << 20);
  EXPECT_EQ(service().submissions[0].spec().model().base_digest(), "0123456789abcdef");
  // The server refuses: its words, and no submission.
  service().error = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "disk full");
  const Result refused = Run({"submit", File("job.yaml", kWithBase)});
  EXPECT_EQ(refused.code, ExitCode::kFailed);
  EXPECT_THAT(refused.err, HasSubstr("disk full"));
  EXPECT_EQ(service().submissions.size(), 1u);
}

TEST_F(Submit, ABaseThatIsNoModel) {
  File("base/config.json", "{}");
  const Result result = Run({"submit", File("job.yaml", kWithBase)});
  EXPECT_EQ(result.code, ExitCode::kBadArguments);
  EXPECT_THAT(result.err, HasSubstr("base"));
  EXPECT_TRUE(service().submissions.empty());
}

TEST_F(Submit, NotReachable) {
  fake_.server->Shutdown();
  const Result result = Run({"submit", File("job.yaml", kJobYaml)});
  EXPECT_EQ(result.code, ExitCode::kNoConnection);
  EXPECT_THAT(result.err, HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace tally::testing
