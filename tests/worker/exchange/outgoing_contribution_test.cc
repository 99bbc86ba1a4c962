#include "worker/exchange/outgoing_contribution.h"

#include "common/base/digest.h"
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

TEST(OutgoingContribution, GoesOnBehindItsOwnChunksThatTheServerHolds) {
  OutgoingContribution contribution;
  contribution.Begin(Round(1));
  const std::vector<Bytes> payloads = {{1}, {2, 3}, {4}};
  Digester digester;
  for (uint32_t i = 0; i < payloads.size(); ++i) {
    contribution.AddChunk(i, payloads[i], nullptr);
    if (i < 2) digester.AddUint64(Digest64(payloads[i].data(), payloads[i].size()));
  }
  contribution.End({}, nullptr);
  v1::HeldChunks held;
  EXPECT_EQ(contribution.FirstNotHeld(held), 0u);
  held.set_chunks(2);
  EXPECT_EQ(contribution.FirstNotHeld(held), 0u);  // of other bytes
  held.set_digest(digester.Finish());
  EXPECT_EQ(contribution.FirstNotHeld(held), 2u);
  held.set_chunks(4);
  EXPECT_EQ(contribution.FirstNotHeld(held), 0u);  // more than there are
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
