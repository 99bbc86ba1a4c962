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
