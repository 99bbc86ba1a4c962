#include "server/round/planner.h"

#include <vector>

#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/spec/defaults.h"
#include "common/spec/learning_rate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;

Layout LayoutOf(bool buffers) {
  LayoutBuilder builder;
  builder.AddBlock("layer").AddTensor("weight", {300});
  if (buffers) builder.AddBuffersBlock("buffers").AddTensor("running_mean", {20});
  return *builder.Build();
}

v1::JobSpec Spec() {
  v1::JobSpec spec = WithDefaults(testing::ValidSpec());
  spec.set_rounds(5);
  spec.set_digest_every(2);
  spec.set_evaluate_every(0);
  spec.set_snapshot_every(0);
  return spec;
}

std::vector<v1::RoundSpec> AllRounds(const RoundPlanner& planner) {
  std::vector<v1::RoundSpec> rounds;
  for (auto next = planner.Next(nullptr); next.has_value(); next = planner.Next(&rounds.back())) {
    rounds.push_back(*next);
  }
  return rounds;
}

TEST(PlannerTest, NumbersStepsScheduleAndFlags) {
  const v1::JobSpec spec = Spec();
  const std::vector<v1::RoundSpec> rounds =
      AllRounds(*RoundPlanner::Create(spec, LayoutOf(false)));
  ASSERT_EQ(rounds.size(), 5);
  for (uint64_t i = 0; i < 5; ++i) {
    const v1::RoundSpec& round = rounds[i];
    EXPECT_EQ(round.round(), i + 1);
    EXPECT_EQ(round.step(), i + 1);
    EXPECT_EQ(round.learning_rate(), LearningRateAt(spec.learning_rate(), i + 1, 5));
    EXPECT_EQ(round.tie_key(), StreamKey(spec.seed(), 0, i + 1, RandomPurpose::kTie));
    EXPECT_EQ(round.deadline_ms(), spec.workers().round_deadline_ms());
    EXPECT_EQ(round.compare_digest(), i == 1 || i == 3 || i == 4) << i;
    EXPECT_EQ(round.evaluate(), i == 4);
    EXPECT_FALSE(round.buffers());
    EXPECT_EQ(round.chunk_elements() % 64, 0);
    EXPECT_GT(round.chunk_elements(), 0);
  }
}

TEST(PlannerTest, BuffersRoundStandsBeforeWhateverIsDue) {
  const auto planner = RoundPlanner::Create(Spec(), LayoutOf(true));
  ASSERT_THAT(planner, IsOk());
  std::vector<uint64_t> steps;
  std::vector<bool> buffers;
  std::vector<uint64_t> snapshots;
  for (const v1::RoundSpec& round : AllRounds(*planner)) {
    EXPECT_EQ(round.round(), steps.size() + 1);
    steps.push_back(round.step());
    buffers.push_back(round.buffers());
    EXPECT_EQ(round.compare_digest(), round.buffers());
    EXPECT_EQ(round.evaluate(), round.buffers() && round.step() == 5);
    if (planner->SnapshotAfter(round)) snapshots.push_back(round.round());
    if (!round.buffers()) continue;
    EXPECT_EQ(round.reduction(), "dense_mean");
    EXPECT_EQ(round.update_rule(), "assign");
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 2, 3, 4, 4, 5, 5));
  EXPECT_THAT(buffers, ElementsAre(false, false, true, false, false, true, false, true));
  EXPECT_THAT(snapshots, ElementsAre(8));
}

TEST(PlannerTest, SnapshotsWhenDue) {
  v1::JobSpec spec = Spec();
  spec.set_snapshot_every(2);
  const auto planner = RoundPlanner::Create(spec, LayoutOf(false));
  std::vector<uint64_t> after;
  for (const v1::RoundSpec& round : AllRounds(*planner)) {
    if (planner->SnapshotAfter(round)) after.push_back(round.round());
  }
  EXPECT_THAT(after, ElementsAre(2, 4, 5));
}

// A server back from a crash has nothing but the ledger's last spec.
TEST(PlannerTest, AnotherPlannerGoesOnAlike) {
  const std::vector<v1::RoundSpec> rounds =
      AllRounds(*RoundPlanner::Create(Spec(), LayoutOf(true)));
  for (size_t i = 0; i + 1 < rounds.size(); ++i) {
    const auto next = RoundPlanner::Create(Spec(), LayoutOf(true))->Next(&rounds[i]);
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->SerializeAsString(), rounds[i + 1].SerializeAsString());
  }
}

TEST(PlannerTest, Methods) {
  struct Row {
    const char *method, *aggregation, *reduction, *rule;
  };
  for (const Row& row : {Row{"distributed_lion", "majority", "majority", "sign_step"},
                         Row{"distributed_lion", "average", "sign_mean", "sign_step"},
                         Row{"global_lion", "", "dense_mean", "lion_step"},
                         Row{"global_adamw", "", "dense_mean", "adamw_step"}}) {
    v1::JobSpec spec = Spec();
    spec.mutable_method()->set_name(row.method);
    spec.mutable_method()->set_aggregation(row.aggregation);
    const auto planner = RoundPlanner::Create(spec, LayoutOf(false));
    ASSERT_THAT(planner, IsOk());
    EXPECT_EQ(planner->Next(nullptr)->reduction(), row.reduction);
    EXPECT_EQ(planner->Next(nullptr)->update_rule(), row.rule);
  }
  v1::JobSpec spec = Spec();
  spec.mutable_method()->set_name("no_such_method");
  EXPECT_THAT(RoundPlanner::Create(spec, LayoutOf(false)),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("no_such_method")));
}

}  // namespace
}  // namespace tally::testing
