#include "client/job_file.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_replace.h"
#include "common/base/status_matchers.h"
#include "common/spec/check.h"
#include "gmock/gmock.h"
#include "tests/client/command_test.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::kJobYaml;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class JobFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<JobFile> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadJobFile(path_);
  }
  ~JobFileTest() override { std::filesystem::remove(path_); }
  const std::string path_ = ::testing::TempDir() + "job_file_test_" + std::to_string(getpid()) +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(JobFileTest, FillsDefaults) {
  TALLY_ASSERT_OK_AND_ASSIGN(const JobFile file, Read(kJobYaml));
  const v1::JobSpec& spec = file.spec;
  EXPECT_EQ(spec.model().config_json(), R"({"hidden":[8]})");
  EXPECT_EQ(spec.method().aggregation(), "majority");
  EXPECT_EQ(spec.method().ties(), "random");
  EXPECT_EQ(spec.method().beta2(), 0.99);
  EXPECT_EQ(spec.workers().quorum(), 2u);
  EXPECT_EQ(spec.workers().minimum(), 2u);
  EXPECT_EQ(spec.workers().max(), 2u);
  EXPECT_EQ(spec.workers().replace_after_ms(), 0u);
  EXPECT_EQ(spec.workers().round_deadline_ms(), 60'000u);
  EXPECT_EQ(spec.workers().pause_limit_ms(), 600'000u);
  EXPECT_EQ(spec.learning_rate().schedule(), "constant");
  EXPECT_EQ(spec.digest_every(), 50u);
  TALLY_EXPECT_OK(CheckJobSpec(spec));
  EXPECT_THAT(file.resolved, HasSubstr("round_deadline: 1m"));
}

TEST_F(JobFileTest, ReadsEveryKey) {
  TALLY_ASSERT_OK_AND_ASSIGN(const JobFile file, Read(R"(
name: full
model: {architecture: vit, base: models/x, reset_head: true}
data: {name: d, shuffle_buffer: 7}
method: {name: global_adamw, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weight_decay: 0.01}
learning_rate: {schedule: cosine, peak: 0.5, final: 0.1, warmup_rounds: 3}
rounds: 11
batch_size: 5
workers: {count: 4, quorum: 3, minimum: 2, max: 6, round_deadline: 250ms, pause_limit: 1h,
          replace_after: 2m, device: cuda, labels: {rack: a}}
evaluate_every: 1
digest_every: 2
snapshot_every: 3
seed: 4
chunk_elements: 64
)"));
  const v1::JobSpec& spec = file.spec;
  EXPECT_EQ(file.base, std::filesystem::path(path_).parent_path() / "models/x");
  EXPECT_TRUE(spec.model().reset_head());
  EXPECT_EQ(spec.data().shuffle_buffer(), 7u);
  EXPECT_EQ(spec.method().epsilon(), 1e-6);
  EXPECT_EQ(spec.method().aggregation(), "");
  EXPECT_EQ(spec.learning_rate().final(), 0.1);
  EXPECT_EQ(spec.learning_rate().warmup_rounds(), 3u);
  EXPECT_EQ(spec.workers().max(), 6u);
  EXPECT_EQ(spec.workers().replace_after_ms(), 120'000u);
  EXPECT_EQ(spec.workers().round_deadline_ms(), 250u);
  EXPECT_EQ(spec.workers().pause_limit_ms(), 3'600'000u);
  EXPECT_EQ(spec.workers().labels().at("rack"), "a");
  EXPECT_EQ(spec.workers().device(), "cuda");
  EXPECT_EQ(spec.evaluate_every() + 10 * spec.digest_every() + 100 * spec.snapshot_every() +
                1000 * spec.seed(),
            4321u);
  EXPECT_EQ(spec.chunk_elements(), 64u);
}

TEST_F(JobFileTest, AllProblemsWithTheirLines) {
  const absl::Status status = Read(R"(name: ../x
model: {architecture: mlp, config: [1]}
data: {name: digits, shufle_buffer: 3}
method: {name: distributed_lion, ties: minus, beta1: 1}
learning_rate: {peak: 0}
rounds: many
batch_size: 0
workers:
  count: 2
  quorum: 3
)")
                                  .status();
  EXPECT_EQ(status.code(), kInvalid);
  for (const char* problem : {":1: name: ", ":2: model.config: ", ":3: data.shufle_buffer: ",
                              ":4: method.ties: ", ":4: method.beta1: ", ":5: learning_rate.peak: ",
                              ":6: rounds: ", ":7: batch_size: ", ":10: workers.quorum: "}) {
    EXPECT_THAT(status.message(), HasSubstr(path_ + problem));
  }
}

TEST_F(JobFileTest, OneMistakeIsReportedOnce) {
  const std::string text = absl::StrReplaceAll(kJobYaml, {{"count: 2", "count: two, quorum: 1"}});
  const std::string message(Read(text).status().message());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
  EXPECT_THAT(message, HasSubstr(":8: workers.count: "));
}

TEST_F(JobFileTest, MissingKeysAreNamed) {
  const absl::Status status = Read("name: x\n").status();
  EXPECT_THAT(status, StatusIs(kInvalid, AllOf(HasSubstr("model.architecture: "),
                                               HasSubstr("learning_rate.peak: "),
                                               HasSubstr("workers.count: "))));
}

TEST_F(JobFileTest, KeysOfOtherMethodsAreRefused) {
  const auto with = [](const char* method) {
    return absl::StrReplaceAll(kJobYaml, {{"{name: distributed_lion}", method}});
  };
  EXPECT_THAT(Read(with("{name: global_lion, ties: zero}")),
              StatusIs(kInvalid, HasSubstr(":4: method.ties: ")));
  EXPECT_THAT(Read(with("{name: distributed_lion, aggregation: average, ties: zero}")),
              StatusIs(kInvalid, HasSubstr(":4: method.ties: ")));
  EXPECT_THAT(Read(with("{name: global_lion, epsilon: 1e-8}")),
              StatusIs(kInvalid, HasSubstr(":4: method.epsilon: ")));
  EXPECT_THAT(Read(with("{name: distributed_lions}")),
              StatusIs(kInvalid, HasSubstr("did you mean distributed_lion?")));
}

TEST_F(JobFileTest, NamesThatAreNone) {
  const auto with = [](const std::string& name) {
    return absl::StrReplaceAll(kJobYaml, {{"name: demo", "name: " + name}});
  };
  for (const std::string name : {"\"a\\0b\"", "..", "a/b", "\"\""}) {
    EXPECT_THAT(Read(with(name)), StatusIs(kInvalid, HasSubstr(":1: name: "))) << name;
  }
  EXPECT_THAT(Read(with(std::string(5000, 'x'))),
              StatusIs(kInvalid, HasSubstr("(5000 characters)")));
}

TEST_F(JobFileTest, OtherBadInput) {
  EXPECT_THAT(ReadJobFile("/no/such/job.yaml"), StatusIs(kInvalid, HasSubstr("/no/such/job.yaml")));
  EXPECT_THAT(Read("a: [\n"), StatusIs(kInvalid, HasSubstr(path_)));
  EXPECT_THAT(Read(absl::StrReplaceAll(kJobYaml, {{"1e-3", ".nan"}})),
              StatusIs(kInvalid, HasSubstr(":5: learning_rate.peak: ")));
  EXPECT_THAT(Read(absl::StrReplaceAll(kJobYaml, {{"count: 2", "count: 4294967298"}})),
              StatusIs(kInvalid, HasSubstr(":8: workers.count: ")));
}

TEST_F(JobFileTest, RangesAreWhatPeopleCouldMean) {
  const auto with = [](const char* workers) {
    return absl::StrReplaceAll(kJobYaml, {{"{count: 2}", workers}});
  };
  EXPECT_THAT(Read(with("{count: -1}")),
              StatusIs(kInvalid, HasSubstr("workers.count: expected an integer from 1 to 255")));
  EXPECT_THAT(Read(with("{count: 2, quorum: 3, max: 1, replace_after: 8d}")),
              StatusIs(kInvalid, AllOf(HasSubstr("workers.quorum: expected 1 to count, 2"),
                                       HasSubstr("workers.max: expected count, 2, to 255 workers"),
                                       HasSubstr("workers.replace_after: "))));
  EXPECT_THAT(Read(with("{count: 2, max: 0}")), StatusIs(kInvalid, HasSubstr("workers.max: ")));
}

TEST_F(JobFileTest, TheSampleJobsAreValid) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TALLY_SAMPLE_JOBS)) {
    const auto file = ReadJobFile(entry.path().string());
    ASSERT_THAT(file, IsOk()) << entry.path();
    TALLY_EXPECT_OK(CheckJobSpec(file->spec)) << entry.path();
    EXPECT_EQ(file->spec.workers().count(), 4u);
    names.insert(file->spec.name());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("fashion-mnist", "fish", "lofi"));
}

}  // namespace
}  // namespace tally
