// What a person does: submit, look, download.
#include <algorithm>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/system/cluster.h"
#include "tests/system/data_set.h"
#include "tests/system/result.h"

namespace tally::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(MainPathTest, ASubmittedJobIsWatchedAndDownloaded) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const Output submitted = cluster.Tally({"submit", cluster.WriteJob({.name = "mine"}), "--watch"});
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  EXPECT_EQ(submitted.err, "");
  EXPECT_THAT(submitted.out, HasSubstr("SUCCEEDED"));

  const Json jobs = cluster.TallyJson({"list"});
  ASSERT_EQ(jobs.size(), 1u);
  const std::string job_id = jobs[0]["job_id"];
  EXPECT_THAT(submitted.out, StartsWith(job_id + "\n"));
  EXPECT_EQ(jobs[0]["spec"]["name"], "mine");

  const std::string folder = CheckResult(cluster, job_id);
  const Json config = Json::parse(Contents(folder + "/config.json"));
  EXPECT_EQ(config["hidden_sizes"], Json({16, 8}));
}

TEST(MainPathTest, StatusSaysWhatTheJobDid) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit({});
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(status["round"], 40);
  EXPECT_EQ(status["samples"], 40 * 2 * 8);
  EXPECT_EQ(status["parameters"], 192 * 16 + 16 + 16 * 8 + 8 + 8 * 4 + 4);
  EXPECT_EQ(status["evaluation"]["round"], 40);
  EXPECT_EQ(status["evaluation"]["count"], kTestExamples);
  // Chance is a quarter; a model that learns nothing of this data set is a fault.
  EXPECT_GT(status["evaluation"]["correct"], kTestExamples / 2);
  ASSERT_EQ(status["workers"].size(), 2u);
  for (const Json& worker : status["workers"]) {
    EXPECT_EQ(worker["contributions"], 40);
    EXPECT_EQ(worker["refused"], 0);
    EXPECT_EQ(worker["last_round"], 40);
    EXPECT_EQ(worker["nonfinite"], 0);
    EXPECT_GT(worker["bytes_up"], 0);
    EXPECT_GT(worker["bytes_down"], 0);
  }
  // One bit a parameter each way, and the padding of three short blocks.
  for (const char* bits : {"bits_up", "bits_down"}) {
    EXPECT_GE(status[bits], 1.0) << bits;
    EXPECT_LT(status[bits], 1.2) << bits;
  }
}

TEST(MainPathTest, EveryCommandSpeaksToPeopleAndToPrograms) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit({.name = "mine"});
  cluster.WaitForState(job_id, "SUCCEEDED");
  cluster.WaitForFreeWorkers(2);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"status", job_id}, {"list"}, {"workers"}, {"version"}}) {
    const Output output = cluster.Tally(command);
    EXPECT_EQ(output.exit_code, 0) << command[0] << ": " << output.err;
    EXPECT_EQ(output.err, "") << command[0];
    EXPECT_FALSE(Json::accept(output.out)) << command[0] << ": " << output.out;
    EXPECT_FALSE(cluster.TallyJson(command).empty()) << command[0];
  }
  EXPECT_THAT(cluster.Tally({"status", job_id}).out, HasSubstr("SUCCEEDED"));
  EXPECT_THAT(cluster.Tally({"list"}).out, HasSubstr(job_id));
  EXPECT_THAT(cluster.Tally({"workers"}).out, HasSubstr("free"));
  const Json workers = cluster.TallyJson({"workers"});
  EXPECT_EQ(workers[0]["name"], "worker-0");
  EXPECT_EQ(workers[1]["data_sets"], Json({"tiny"}));
  EXPECT_THAT(cluster.TallyJson({"version"}).dump(), HasSubstr(cluster.status_address()));
}

TEST(MainPathTest, TheLogTellsTheJobsLife) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit({});
  cluster.WaitForState(job_id, "SUCCEEDED");
  const std::vector<std::string> events = cluster.Events(job_id);
  EXPECT_THAT(events, Contains("worker-0: attached").Times(1));
  EXPECT_THAT(events, Contains("worker-1: attached").Times(1));
  EXPECT_THAT(events, Contains(HasSubstr("after round 40: accuracy")).Times(1));
  for (const std::string& event : events) {
    EXPECT_FALSE(absl::StrContains(event, "left out")) << event;
    EXPECT_FALSE(absl::StrContains(event, "is late")) << event;
  }
  const Output followed = cluster.Tally({"logs", job_id, "--follow"});
  EXPECT_EQ(followed.exit_code, 0) << followed.err;
  EXPECT_THAT(followed.out, HasSubstr("worker-1: attached"));
}

TEST(MainPathTest, TheSameTokenIsTheSameJob) {
  Cluster cluster;
  const std::string job = cluster.WriteJob({});
  const Json first = cluster.TallyJson({"submit", job, "--token", "once"});
  const Json again = cluster.TallyJson({"submit", job, "--token", "once"});
  EXPECT_EQ(first["job_id"], again["job_id"]);
  EXPECT_EQ(first["created"], true);
  EXPECT_EQ(again["created"], false);
  EXPECT_EQ(cluster.TallyJson({"list"}).size(), 1u);
}

// Each model and each method leaves replicas, fold and download with the same bits.
struct Variant {
  const char* name;
  const char* model;
  const char* method;
  const char* workers;
  const char* data = "";  // further keys of it
};

constexpr char kMlp[] =
    "{architecture: mlp, config: {input_size: 192, hidden_sizes: [16, 8], num_labels: 4,"
    " hidden_act: relu}}";
constexpr char kVit[] =
    "{architecture: vit, config: {image_size: 8, patch_size: 4, num_channels: 3, hidden_size: 16,"
    " num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32, num_labels: 4}}";
constexpr char kResnet[] =
    "{architecture: resnet_cifar, config: {depth: 8, num_labels: 4, image_size: 8}}";
constexpr char kMajority[] = "{name: distributed_lion, weight_decay: 0.1}";

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class VariantTest : public ::testing::TestWithParam<Variant> {};

TEST_P(VariantTest, ReplicasStayBitIdentical) {
  Cluster cluster;
  const Json workers = Json::parse(GetParam().workers);
  cluster.StartWorkers(workers["count"]);
  const std::string job_id = cluster.Submit({.model = GetParam().model,
                                             .data = absl::StrCat("{name: tiny, shuffle_buffer: 64",
                                                                  GetParam().data, "}"),
                                             .method = GetParam().method,
                                             .learning_rate = "{peak: 2e-3}",
                                             .workers = GetParam().workers,
                                             .rounds = "20",
                                             .more = "digest_every: 1\nevaluate_every: 7\n"
                                                     "snapshot_every: 6\nchunk_elements: 256"});
  const Json status = cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_EQ(status["evaluation"]["count"], kTestExamples);
  CheckResult(cluster, job_id);
}

INSTANTIATE_TEST_SUITE_P(
    MainPath, VariantTest,
    ::testing::Values(
        Variant{"MlpMajority", kMlp, kMajority, R"({"count": 3})"},
        Variant{"MlpTiesZero", kMlp, "{name: distributed_lion, ties: zero}", R"({"count": 2})"},
        Variant{"MlpAverage", kMlp, "{name: distributed_lion, aggregation: average}",
                R"({"count": 3})"},
        Variant{"MlpGlobalLion", kMlp, "{name: global_lion, weight_decay: 0.1}", R"({"count": 2})"},
        Variant{"MlpGlobalAdamw", kMlp, "{name: global_adamw}", R"({"count": 3})"},
        Variant{"MlpLofiSgd", kMlp,
                "{name: lofi, local: {steps: 3, optimiser: sgd, momentum: 0.9, dtype: fp16},"
                " lofi: {outer: nesterov}}",
                R"({"count": 3})"},
        Variant{"MlpLofiAdamw", kMlp,
                "{name: lofi, weight_decay: 0.1, local: {steps: 2, optimiser: adamw, dtype: bf16,"
                " weights: samples}}",
                R"({"count": 2})"},
        Variant{"ResnetLofiLion", kResnet,
                "{name: lofi, local: {steps: 2, optimiser: lion}, lofi: {outer: momentum}}",
                R"({"count": 2})"},
        Variant{"ResnetLofiGreedyRecalibrated", kResnet,
                "{name: lofi, local: {steps: 2, optimiser: sgd},"
                " lofi: {soup: greedy, recalibrate_batches: 2}}",
                R"({"count": 3})", ", hold_out_every: 4"},
        Variant{"MlpFishRefreshed", kMlp,
                "{name: fish, weight_decay: 0.1, local: {steps: 2, optimiser: adamw},"
                " fish: {density: 0.2, samples: 16, refresh_every: 3}}",
                R"({"count": 3})"},
        Variant{"MlpFishSigns", kMlp,
                "{name: fish, local: {steps: 2, optimiser: sgd, momentum: 0.9, dtype: sign},"
                " fish: {density: 0.1, fisher: expected, samples: 8, refresh_every: 5}}",
                R"({"count": 2})"},
        Variant{"MlpFishRandom", kMlp,
                "{name: fish, local: {steps: 1, optimiser: lion, dtype: bf16},"
                " fish: {density: 0.1, fisher: random, refresh_every: 4}}",
                R"({"count": 2})"},
        Variant{"ResnetFishFixed", kResnet,
                "{name: fish, local: {steps: 2, optimiser: adamw},"
                " fish: {density: 0.05, samples: 8, refresh_every: 0}}",
                R"({"count": 2})"},
        Variant{"VitMajority", kVit, kMajority, R"({"count": 2})"},
        Variant{"VitGlobalAdamw", kVit, "{name: global_adamw}", R"({"count": 2})"},
        Variant{"ResnetMajority", kResnet, kMajority, R"({"count": 2})"},
        Variant{"ResnetAverage", kResnet, "{name: distributed_lion, aggregation: average}",
                R"({"count": 3})"},
        Variant{"ResnetGlobalLion", kResnet, "{name: global_lion}", R"({"count": 2})"}),
    [](const auto& info) { return std::string(info.param.name); });

// The number before " of " in the worker's log of a step.
int MostLeftEarly(const std::string& log) {
  int most = -1;
  const std::string mark = " chunks left before backward ended";
  for (size_t at = log.find(mark); at != std::string::npos; at = log.find(mark, at + 1)) {
    const size_t begin = log.rfind(": ", at) + 2;
    most = std::max(most, std::stoi(log.substr(begin)));
  }
  return most;
}

TEST(OverlapTest, ChunksLeaveWhileBackwardGoesOn) {
  Cluster cluster;
  cluster.StartWorkers(2);
  const std::string job_id = cluster.Submit({.model = kVit, .rounds = "5"});
  cluster.WaitForState(job_id, "SUCCEEDED");
  EXPECT_GE(MostLeftEarly(Contents(cluster.WorkerLog("worker-0"))), 1);
}

}  // namespace
}  // namespace tally::testing
