#include "common/config/config.h"

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

ConfigDocument Parse(const std::string& text) {
  auto document = ParseYamlText(text, "job.yaml");
  if (!document.ok()) ADD_FAILURE() << document.status();
  return *std::move(document);
}

std::string Problems(const ConfigDocument& document) {
  return std::string(document.Finish().message());
}

TEST(Config, ReadsEveryKind) {
  ConfigDocument document = Parse(R"(
name: fashion
rounds: 600
seed: 18446744073709551615
rate: 1e-3
watch: true
lease: 1m30s
method: distributed_lion
files: [a, "8"]
labels: {gpu: h200, rack: "7"}
)");
  ConfigMap root = document.Root();
  EXPECT_EQ(root.String("name"), "fashion");
  EXPECT_EQ(root.Int("rounds", {1, 1000}), 600);
  EXPECT_EQ(root.Uint64("seed", {}), UINT64_MAX);
  EXPECT_EQ(root.Double("rate", DoubleRange::Above(0)), 1e-3);
  EXPECT_TRUE(root.Bool("watch"));
  EXPECT_EQ(root.Duration("lease", {}), absl::Seconds(90));
  EXPECT_EQ(root.OneOf("method", {"global_lion", "distributed_lion"}), "distributed_lion");
  EXPECT_THAT(root.Strings("files"), ElementsAre("a", "8"));
  EXPECT_THAT(root.StringMap("labels"), ElementsAre(Pair("gpu", "h200"), Pair("rack", "7")));
  TALLY_EXPECT_OK(document.Finish());
}

TEST(Config, FallbacksHoldForAbsentKeys) {
  ConfigDocument document = Parse("{}");
  ConfigMap root = document.Root();
  EXPECT_EQ(root.String("name", "x"), "x");
  EXPECT_EQ(root.Int("rounds", {1, 9}, 7), 7);
  EXPECT_EQ(root.Double("rate", DoubleRange::Above(0), 0.5), 0.5);
  EXPECT_EQ(root.Duration("lease", {}, absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(root.OneOf("ties", {"random", "zero"}, "random"), "random");
  EXPECT_THAT(root.Strings("files", std::vector<std::string>{}), IsEmpty());
  EXPECT_EQ(root.Map("limits").Int("workers", {1, 64}, 8), 8);
  EXPECT_THAT(root.Maps("stages"), IsEmpty());
  EXPECT_EQ(root.Json("config", "{}"), "{}");
  EXPECT_FALSE(root.Has("optional"));
  TALLY_EXPECT_OK(document.Finish());
}

TEST(Config, AllErrorsAtOnce) {
  ConfigDocument document = Parse(R"(name: 8
rounds: 0
lerning_rate: 0.1
rate: .nan
lease: 30
method: distributed_lyon
watch: yes
limits:
  workers: "4"
  workers: 5
files: [a, 8]
)");
  ConfigMap root = document.Root();
  root.String("name");
  root.Int("rounds", {1, 1000000});
  root.Double("learning_rate", DoubleRange::OpenClosed(0, 1));
  root.Double("rate", DoubleRange::AtLeast(0));
  root.Duration("lease", {absl::Seconds(1), absl::Hours(1)});
  root.OneOf("method", {"distributed_lion", "global_lion"});
  root.Bool("watch");
  root.Map("limits").Int("workers", {1, 64});
  root.Strings("files");
  root.Map("model").String("name");
  EXPECT_THAT(
      document.Finish(),
      StatusIs(
          kInvalid,
          R"(job.yaml:1: name: expected a string, found the integer 8; write it in quotes to make it a string
job.yaml:1: learning_rate: expected a finite number above 0 and of at most 1, found no such key
job.yaml:1: model.name: expected a string, found no such key
job.yaml:2: rounds: expected an integer from 1 to 1000000, found the integer 0
job.yaml:3: lerning_rate: expected a known key, found lerning_rate; did you mean learning_rate?
job.yaml:4: rate: expected a finite number of at least 0, found the number .nan
job.yaml:5: lease: expected a duration such as 250ms, 30s or 1h30m from 1s to 1h, found the integer 30
job.yaml:6: method: expected one of distributed_lion, global_lion; found the string "distributed_lyon"; did you mean distributed_lion?
job.yaml:7: watch: expected true or false, found the string "yes"
job.yaml:9: limits.workers: expected an integer from 1 to 64, found the string "4"
job.yaml:10: limits.workers: expected each key once, found it again (first on line 9)
job.yaml:11: files[1]: expected a string, found the integer 8; write it in quotes to make it a string)"));
}

TEST(Config, UnknownKeysListTheKnownOnesWhenNoneIsNear) {
  ConfigDocument document = Parse("port: 1\nlimits:\n  zzzzzz: 1\n");
  document.Root().Int("port", {0, 65535});
  document.Root().Map("limits").Int("workers", {}, 1);
  EXPECT_EQ(Problems(document),
            "job.yaml:3: limits.zzzzzz: expected a known key, found zzzzzz; known here: workers");
}

TEST(Config, SectionThatNobodyReadsIsUnknown) {
  ConfigDocument document = Parse("limits: {workers: 1}\n");
  EXPECT_EQ(Problems(document), "job.yaml:1: limits: expected a known key, found limits");
}

TEST(Config, EmptyValueIsNotAFallback) {
  ConfigDocument document = Parse("port:\nlimits:\n");
  EXPECT_EQ(document.Root().Int("port", {0, 65535}, 7), 7);
  document.Root().Map("limits").Int("workers", {}, 1);
  EXPECT_EQ(Problems(document),
            "job.yaml:1: port: expected an integer from 0 to 65535, found nothing\n"
            "job.yaml:2: limits: expected a mapping, found nothing");
}

TEST(Config, WrongKindOfSectionIsOneProblem) {
  ConfigDocument document = Parse("limits: 3\nstages: {a: 1}\n");
  document.Root().Map("limits").Map("deep").String("required");
  EXPECT_THAT(document.Root().Maps("stages"), IsEmpty());
  EXPECT_EQ(Problems(document),
            "job.yaml:1: limits: expected a mapping, found the integer 3\n"
            "job.yaml:2: stages: expected a sequence of mappings, found a mapping");
}

TEST(Config, NumbersOutsideTheirRange) {
  ConfigDocument document = Parse("a: .inf\nb: 1e999\nc: 1\nd: 0\ne: -1\nf: 1e2\ng: nan\n");
  ConfigMap root = document.Root();
  root.Double("a", {});
  root.Double("b", {});
  root.Double("c", DoubleRange::ClosedOpen(0, 1));
  root.Double("d", DoubleRange::Above(0));
  root.Uint64("e", {});
  root.Int("f", {});
  root.Double("g", {});
  EXPECT_EQ(Problems(document),
            "job.yaml:1: a: expected a finite number, found the number .inf\n"
            "job.yaml:2: b: expected a finite number, found the number 1e999\n"
            "job.yaml:3: c: expected a finite number of at least 0 and below 1, "
            "found the integer 1\n"
            "job.yaml:4: d: expected a finite number above 0, found the integer 0\n"
            "job.yaml:5: e: expected an integer of at least 0, found the integer -1\n"
            "job.yaml:6: f: expected an integer, found the number 1e2\n"
            "job.yaml:7: g: expected a finite number, found the string \"nan\"");
}

TEST(Config, Durations) {
  ConfigDocument document =
      Parse("a: 250ms\nb: 0\nc: -5s\nd: inf\ne: 5 minutes\nf: 1h30m\ng: 99999999999999999999h\n");
  ConfigMap root = document.Root();
  EXPECT_EQ(root.Duration("a", {}), absl::Milliseconds(250));
  EXPECT_EQ(root.Duration("b", {}), absl::ZeroDuration());
  EXPECT_EQ(root.Duration("f", {}), absl::Minutes(90));
  for (const char* key : {"c", "d", "e", "g"}) {
    EXPECT_EQ(root.Duration(key, {}, absl::Seconds(3)), absl::Seconds(3)) << key;
  }
  EXPECT_THAT(Problems(document), HasSubstr("job.yaml:3: c: expected a duration such as"));
  EXPECT_THAT(Problems(document), HasSubstr("job.yaml:4: d: "));
  EXPECT_THAT(Problems(document), HasSubstr("job.yaml:5: e: "));
  EXPECT_THAT(Problems(document), HasSubstr("job.yaml:7: g: "));
}

TEST(Config, SequencesOfMappings) {
  ConfigDocument document = Parse("stages:\n  - rounds: 1\n  - round: 2\n  - 3\n");
  std::vector<ConfigMap> stages = document.Root().Maps("stages");
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[0].Int("rounds", {}), 1);
  stages[1].Int("rounds", {});
  stages[2].Int("rounds", {});
  EXPECT_EQ(Problems(document),
            "job.yaml:3: stages[1].rounds: expected an integer, found no such key\n"
            "job.yaml:3: stages[1].round: expected a known key, found round; "
            "did you mean rounds?\n"
            "job.yaml:4: stages[2]: expected a mapping, found the integer 3");
}

TEST(Config, NamedMappings) {
  ConfigDocument document = Parse("data:\n  fashion: {path: /a}\n  own: {path: /b}\n");
  auto sets = document.Root().NamedMaps("data");
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].first, "fashion");
  EXPECT_EQ(sets[0].second.String("path"), "/a");
  EXPECT_EQ(sets[1].second.String("path"), "/b");
  TALLY_EXPECT_OK(document.Finish());
}

TEST(Config, JsonKeepsOrderAndTypes) {
  ConfigDocument document = Parse(R"(model:
  z: [1, -2, 0x10, +7, 18446744073709551615]
  a: {b: true, "c": null, d: ~}
  f: [1.0, 1e-5, .5, 1e20]
  s: ["8", yes, "q\"\\\n\u0001", é, '']
  "k\"": x
  e: {}
  l: []
)");
  EXPECT_EQ(document.Root().Json("model"),
            R"({"z":[1,-2,16,7,18446744073709551615],"a":{"b":true,"c":null,"d":null},)"
            R"("f":[1.0,1e-05,0.5,1e+20],"s":["8","yes","q\"\\\n\u0001","é",""],)"
            R"("k\"":"x","e":{},"l":[]})");
  TALLY_EXPECT_OK(document.Finish());
}

TEST(Config, JsonRefusesWhatItCannotHold) {
  ConfigDocument document = Parse("model:\n  a: [.nan]\n  b: 99999999999999999999\n  c: 1e999\n");
  document.Root().Json("model");
  EXPECT_EQ(Problems(document),
            "job.yaml:2: model.a[0]: expected a finite number, found .nan\n"
            "job.yaml:3: model.b: expected an integer of at most 64 bits, "
            "found 99999999999999999999\n"
            "job.yaml:4: model.c: expected a finite number, found 1e999");
}

TEST(Config, CallersOwnChecksCarryTheLine) {
  ConfigDocument document = Parse("a: 1\nlimits:\n  low: 5\n  high: 3\n");
  document.Root().Int("a", {});
  ConfigMap limits = document.Root().Map("limits");
  const int64_t low = limits.Int("low", {});
  if (limits.Int("high", {}) < low) limits.ErrorHere("high", "expected at least low (5), found 3");
  limits.ErrorHere("absent", "expected one of low, absent");
  EXPECT_EQ(Problems(document),
            "job.yaml:2: limits.absent: expected one of low, absent\n"
            "job.yaml:4: limits.high: expected at least low (5), found 3");
}

TEST(Config, ReadingTwiceReportsOnce) {
  ConfigDocument document = Parse("a: x\n");
  document.Root().Int("a", {});
  document.Root().Int("a", {});
  EXPECT_EQ(Problems(document), "job.yaml:1: a: expected an integer, found the string \"x\"");
}

TEST(Config, HandlesOutliveAMoveOfTheDocument) {
  ConfigDocument document = Parse("a: 1\n");
  ConfigMap root = document.Root();
  const ConfigDocument moved = std::move(document);
  EXPECT_EQ(root.Int("a", {}), 1);
  TALLY_EXPECT_OK(moved.Finish());
}

TEST(Config, ResolvedShowsWhatIsInEffect) {
  ConfigDocument document = Parse(R"(
name: "8"
stages: [{rounds: 2}, {}]
data: {fashion: {path: "/a b"}}
model: {width: 64}
)");
  ConfigMap root = document.Root();
  root.String("name");
  root.Double("rate", {}, 0.001);
  root.Bool("watch", false);
  root.Duration("lease", {}, absl::Seconds(90));
  root.Strings("files", std::vector<std::string>{"a", "true"});
  root.StringMap("labels", std::map<std::string, std::string>{{"gpu", "h200"}});
  for (ConfigMap& stage : root.Maps("stages")) stage.Int("rounds", {}, 1);
  for (auto& [name, set] : root.NamedMaps("data")) set.String("path");
  root.Map("limits").Int("workers", {}, 8);
  root.Map("nothing");
  root.Json("model");
  TALLY_ASSERT_OK(document.Finish());
  EXPECT_EQ(document.Resolved(), R"(name: "8"
rate: 0.001
watch: false
lease: 1m30s
files: [a, "true"]
labels: {gpu: h200}
stages:
  -
    rounds: 2
  -
    rounds: 1
data:
  fashion:
    path: "/a b"
limits:
  workers: 8
nothing: {}
model: {"width":64}
)");
}

TEST(Config, ResolvedReadsBackTheSame) {
  ConfigDocument first = Parse("name: 'tab\t\"q\" # x: y'\nstages: [{n: 1}]\n");
  const auto read = [](ConfigDocument& document) {
    for (ConfigMap& stage : document.Root().Maps("stages")) stage.Int("n", {});
    return document.Root().String("name");
  };
  const std::string name = read(first);
  ConfigDocument second = Parse(first.Resolved());
  EXPECT_EQ(read(second), name);
  EXPECT_EQ(second.Resolved(), first.Resolved());
}

TEST(Config, MissingFileNamesThePath) {
  EXPECT_THAT(ParseYaml("/nowhere/job.yaml"),
              StatusIs(absl::StatusCode::kNotFound,
                       "opening /nowhere/job.yaml: No such file or directory"));
}

TEST(Config, FolderInsteadOfFile) {
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(ParseYaml(folder), StatusIs(kInvalid, folder + ": expected a file, found a folder"));
}

TEST(Config, ReadsAFile) {
  const std::string path = ::testing::TempDir() + "/tally_config_test.yaml";
  TALLY_ASSERT_OK(WriteFileAtomically(path, "a: x\n"));
  TALLY_ASSERT_OK_AND_ASSIGN(ConfigDocument document, ParseYaml(path));
  document.Root().Int("a", {});
  EXPECT_EQ(Problems(document), path + ":1: a: expected an integer, found the string \"x\"");
  TALLY_EXPECT_OK(RemoveTree(path));
}

}  // namespace
}  // namespace tally
