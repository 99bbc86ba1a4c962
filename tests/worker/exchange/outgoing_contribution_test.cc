#include "worker/exchange/outgoing_contribution.h"

#include "gtest/gtest.h"

namespace tally {
namespace {

v1::RoundSpec Round(uint64_t number) {
  v1::RoundSpec spec;
  spec.set_round(number);
  spec.set_learning_rate(0.1);
  return spec;
}

TEST(OutgoingContribution, IsForItsRoundOnlyOnceItHasEnded) {
  OutgoingContribution contribution;
  contribution.Begin(Round(3));
  contribution.AddChunk(0, {1, 2, 3}, nullptr);
  EXPECT_FALSE(contribution.IsFor(Round(3)));
  contribution.End({}, nullptr);
  EXPECT_TRUE(contribution.IsFor(Round(3)));
  EXPECT_FALSE(contribution.IsFor(Round(4)));
}

TEST(OutgoingContribution, ARoundDecidedAnewIsAnotherRound) {
  OutgoingContribution contribution;
  contribution.Begin(Round(3));
  contribution.End({}, nullptr);
  v1::RoundSpec again = Round(3);
  again.set_learning_rate(0.2);
  EXPECT_FALSE(contribution.IsFor(again));
}

TEST(OutgoingContribution, AnotherDeadlineIsTheSameRound) {
  OutgoingContribution contribution;
  contribution.Begin(Round(3));
  contribution.End({}, nullptr);
  v1::RoundSpec again = Round(3);
  again.set_deadline_ms(500);
  EXPECT_TRUE(contribution.IsFor(again));
}

TEST(OutgoingContribution, IsKeptWholeOnceItHasEnded) {
  OutgoingContribution made;
  made.Begin(Round(3));
  made.AddChunk(1, {4, 5}, nullptr);
  made.AddChunk(0, {1, 2, 3}, nullptr);
  EXPECT_FALSE(made.Keep().has_value());
  v1::ContributionEnd end;
  end.set_samples(8);
  made.End(end, nullptr);

  OutgoingContribution restored;
  restored.Restore(*made.Keep());
  EXPECT_TRUE(restored.IsFor(Round(3)));
  const KeptContribution kept = *restored.Keep();
  EXPECT_EQ(kept.end.SerializeAsString(), made.Keep()->end.SerializeAsString());
  EXPECT_EQ(kept.end.samples(), 8u);
  EXPECT_EQ(kept.end.chunks(), 2u);
  ASSERT_EQ(kept.chunks.size(), 2u);
  EXPECT_EQ(kept.chunks[1].first, 1u);
  EXPECT_EQ(Bytes(kept.chunks[1].second.begin(), kept.chunks[1].second.end()), (Bytes{4, 5}));
}

TEST(OutgoingContribution, BeginForgets) {
  OutgoingContribution contribution;
  contribution.Begin(Round(1));
  contribution.AddChunk(0, {1}, nullptr);
  contribution.AddChunk(1, {2}, nullptr);
  EXPECT_EQ(contribution.chunks(), 2u);
  contribution.Begin(Round(2));
  EXPECT_EQ(contribution.chunks(), 0u);
}

}  // namespace
}  // namespace tally
