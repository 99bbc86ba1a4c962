// What people get wrong: one clear message, the right exit code, and nothing left behind.
#include <algorithm>
#include <filesystem>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"

namespace tally::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kMlp[] = "{architecture: mlp, config: {input_size: 192, hidden_sizes: [8], ";

struct BadJob {
  const char* name;
  JobText job;
  int line;           // of the problem
  const char* words;  // "KEY: what is wrong"
};

void PrintTo(const BadJob& bad, std::ostream* out) { *out << bad.name; }

class BadJobTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadJobTest, IsRefusedWithPlaceAndKey) {
  Cluster cluster;
  const std::string path = cluster.WriteJob(GetParam().job);
  const Output output = cluster.Tally({"submit", path, "--watch"});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.err, StartsWith(absl::StrCat("tally: ", path, ":", GetParam().line, ": ")));
  EXPECT_THAT(output.err, HasSubstr(GetParam().words));
  EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
  EXPECT_TRUE(cluster.TallyJson({"list"}).empty());
}

// Lines of a job file: name 1, model 2, data 3, method 4, learning_rate 5, workers 6, rounds 7.
INSTANTIATE_TEST_SUITE_P(
    BadInput, BadJobTest,
    ::testing::Values(
        BadJob{"UnknownKey", {.more = "lerning_rate: 1"}, 9, "lerning_rate: expected a known key"},
        BadJob{"UnknownNestedKey", {.workers = "{count: 2, cuont: 2}"}, 6, "workers.cuont: "},
        BadJob{"WrongType", {.workers = "{count: two}"}, 6, "workers.count: expected an integer"},
        BadJob{"QuotedNumber", {.rounds = "\"40\""}, 7, "rounds: expected an integer"},
        BadJob{"NoRounds", {.rounds = ""}, 7, "rounds: "},
        BadJob{"ZeroRounds", {.rounds = "0"}, 7, "rounds: "},
        BadJob{"ZeroBatch", {.batch_size = "0"}, 8, "batch_size: "},
        BadJob{"UnknownMethod", {.method = "{name: lion_king}"}, 4, "method.name: "},
        BadJob{"ZeroLearningRate", {.learning_rate = "{peak: 0}"}, 5, "learning_rate.peak: "},
        BadJob{"NanLearningRate", {.learning_rate = "{peak: .nan}"}, 5, "learning_rate.peak: "},
        BadJob{"DecayTooLarge",
               {.method = "{name: global_lion, weight_decay: 1000}"}, 4, "method.weight_decay: "},
        BadJob{"NoWorkers", {.workers = "{count: 0}"}, 6, "workers.count: "},
        BadJob{"QuorumAboveCount", {.workers = "{count: 2, quorum: 3}"}, 6, "workers.quorum: "},
        BadJob{"NoDurationUnit",
               {.workers = "{count: 2, round_deadline: 5}"}, 6, "workers.round_deadline: "},
        BadJob{"NameIsDotDot", {.name = ".."}, 1, "name: "},
        BadJob{"NameIsAPath", {.name = "../x"}, 1, "name: "},
        BadJob{"NameIsLong", {.name = std::string(5000, 'a')}, 1, "name: "}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BadInputTest, AMissingJobFileIsNamed) {
  Cluster cluster;
  const Output output = cluster.Tally({"submit", cluster.File("none.yaml")});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_THAT(output.err, AllOf(StartsWith("tally: "), HasSubstr(cluster.File("none.yaml"))));
}

// A worker that has it may still come.
TEST(BadInputTest, AJobThatNoWorkerMatchesWaitsAndSaysWhy) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::pair<JobText, std::string> cases[] = {
      {{.data = "{name: imagenet}"}, "data set imagenet"},
      {{.model = "{architecture: perceiver, config: {num_labels: 4}}"}, "architecture perceiver"},
      {{.workers = "{count: 2, labels: {rack: r7}}"}, "label rack=r7"},
      {{.workers = "{count: 3}"}, "needs 3 workers"},
  };
  for (const auto& [job, words] : cases) {
    const std::string job_id = cluster.Submit(job);
    const Json status = cluster.WaitForStatus(job_id, "a reason", [](const Json& status) {
      return status["reason"].get<std::string>() != "";
    });
    EXPECT_EQ(status["state"], "PENDING") << words;
    EXPECT_THAT(status["reason"].get<std::string>(), HasSubstr(words));
    EXPECT_EQ(cluster.Tally({"cancel", job_id}).exit_code, 0) << words;
  }
  cluster.WaitForState(cluster.Submit({}), "SUCCEEDED");
}

// Only a worker can tell; the job then fails at once, and the next one runs.
TEST(BadInputTest, AModelThatCannotTrainFailsTheJobInWords) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::pair<std::string, std::string> cases[] = {
      {absl::StrCat(kMlp, "num_labels: 3, hidden_act: relu}}"), "classes"},
      {"{architecture: mlp, config: {input_size: 100, hidden_sizes: [8], num_labels: 4,"
       " hidden_act: relu}}",
       "100"},
      {"{architecture: resnet_cifar, config: {depth: 8, num_labels: 4, image_size: 16}}", "16"},
      {absl::StrCat(kMlp, "num_labels: 4, hidden_act: relu, hiden: 1}}"), "hiden"},
  };
  for (const auto& [model, words] : cases) {
    const Output output = cluster.Tally({"submit", cluster.WriteJob({.model = model}), "--watch"});
    EXPECT_EQ(output.exit_code, 1) << model;
    EXPECT_THAT(output.err, AllOf(HasSubstr("FAILED"), HasSubstr(words))) << model;
    cluster.WaitForFreeWorkers(2);
  }
  cluster.WaitForState(cluster.Submit({}), "SUCCEEDED");
}

TEST(BadInputTest, AnUnknownJobIsNamed) {
  Cluster cluster;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"status", "job-99"}, {"watch", "job-99"}, {"cancel", "job-99"},
        {"logs", "job-99"}, {"download", "job-99", "-o", cluster.File("model")}}) {
    const Output output = cluster.Tally(command);
    EXPECT_EQ(output.exit_code, 1) << command[0];
    EXPECT_EQ(output.out, "") << command[0];
    EXPECT_THAT(output.err, AllOf(StartsWith("tally: "), HasSubstr("job-99"))) << command[0];
  }
  EXPECT_FALSE(std::filesystem::exists(cluster.File("model")));
}

TEST(BadInputTest, AServerThatIsNotThereIsNoConnection) {
  Cluster cluster;
  const std::string address = cluster.address();
  const std::string job = cluster.WriteJob({});
  cluster.server().Kill();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"list"}, {"version"}, {"submit", job}}) {
    const Output output = cluster.Tally(command);
    EXPECT_EQ(output.exit_code, 2) << command[0];
    EXPECT_THAT(output.err, AllOf(HasSubstr(address), HasSubstr("Connection refused")))
        << command[0];
  }
}

TEST(BadInputTest, OddAddressesAreBadArguments) {
  Cluster cluster;
  for (const char* address : {"host:99999", "::1:50051", "host", "", ":7070", "[::1]:0"}) {
    const Output output = cluster.Run({TALLY_CLIENT_PROGRAM, "--server", address, "list"});
    EXPECT_EQ(output.exit_code, 4) << address << ": " << output.err;
    EXPECT_THAT(output.err, StartsWith("tally: ")) << address;
  }
  for (const char* address : {"host:99999", "::1:50051", "10.0.0.1:0"}) {
    const std::string yaml = cluster.WriteServerYaml(address, "127.0.0.1:0", cluster.File("other"));
    const Output output = cluster.Run({TALLY_SERVER_PROGRAM, yaml});
    EXPECT_EQ(output.exit_code, 4) << address;
    EXPECT_THAT(output.err, StartsWith(absl::StrCat("tally-server: ", yaml, ":1: listen: ")));
    EXPECT_FALSE(std::filesystem::exists(cluster.File("other")));
  }
}

TEST(BadInputTest, AProxyIsPassedByOrNamed) {
  Cluster cluster;
  const Environment dead = {{"http_proxy", "http://127.0.0.1:9"}, {"no_proxy", ""}};
  const Output named = cluster.Tally({"list", "--timeout", "20"}, dead);
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_THAT(named.err, HasSubstr("http_proxy"));
  Environment exempt = dead;
  exempt["no_proxy"] = "127.0.0.1";
  const Output passed = cluster.Tally({"list"}, exempt);
  EXPECT_EQ(passed.exit_code, 0) << passed.err;
}

}  // namespace
}  // namespace tally::testing
