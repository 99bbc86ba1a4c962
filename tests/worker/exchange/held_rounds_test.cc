#include "worker/exchange/held_rounds.h"

#include <vector>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::RoundSpec Spec(uint64_t round) {
  v1::RoundSpec spec;
  spec.set_round(round);
  spec.set_learning_rate(0.5);
  return spec;
}

v1::RoundClosed Closed(uint64_t round) {
  v1::RoundClosed closed;
  closed.set_round(round);
  closed.set_history(1000 + round);
  return closed;
}

// Chunks of a round: `bytes` and 1 byte, filled with its number.
std::vector<Bytes> Chunks(uint64_t round, size_t bytes = 3) {
  const auto value = static_cast<unsigned char>(round);
  return {Bytes(bytes, value), Bytes(1, value)};
}

void Add(HeldRounds& held, uint64_t round, size_t bytes = 3) {
  held.Add(Spec(round), Closed(round), Chunks(round, bytes));
}

struct Sent {
  v1::WorkerFrame frame;
  Bytes payload;
};

absl::Status HandBack(const HeldRounds& held, uint64_t first, uint64_t last,
                      std::vector<Sent>& sent) {
  return held.HandBack(first, last,
                       [&](const v1::WorkerFrame& frame, absl::Span<const grpc::Slice> payload) {
                         const Payload slices({payload.begin(), payload.end()});
                         sent.push_back({frame, slices.ToBytes()});
                       });
}

TEST(HeldRounds, StartsWithNone) {
  HeldRounds held;
  std::vector<Sent> sent;
  EXPECT_EQ(held.first(), 0u);
  EXPECT_THAT(HandBack(held, 1, 1, sent),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("1 to 1")));
}

TEST(HeldRounds, HandsBackSpecChunksAndClosedAsTheyCame) {
  HeldRounds held;
  for (uint64_t round = 4; round <= 6; ++round) Add(held, round);
  std::vector<Sent> sent;
  TALLY_ASSERT_OK(HandBack(held, 5, 6, sent));
  ASSERT_EQ(sent.size(), 8u);
  for (uint64_t round = 5; round <= 6; ++round) {
    const Sent* frames = &sent[(round - 5) * 4];
    EXPECT_EQ(frames[0].frame.past_round().SerializeAsString(), Spec(round).SerializeAsString());
    for (uint32_t index = 0; index < 2; ++index) {
      const v1::ChunkHeader& header = frames[1 + index].frame.chunk();
      const Bytes& payload = frames[1 + index].payload;
      EXPECT_EQ(header.kind(), v1::ROUND);
      EXPECT_EQ(header.round(), round);
      EXPECT_EQ(header.index(), index);
      EXPECT_EQ(payload, Chunks(round)[index]);
      EXPECT_EQ(header.digest(), Digest64(payload.data(), payload.size()));
    }
    EXPECT_EQ(frames[3].frame.closed().SerializeAsString(), Closed(round).SerializeAsString());
  }
}

TEST(HeldRounds, NothingIsSentUnlessAllAreHeld) {
  HeldRounds held;
  for (uint64_t round = 4; round <= 6; ++round) Add(held, round);
  std::vector<Sent> sent;
  EXPECT_THAT(HandBack(held, 3, 6, sent),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rounds of 4 to 6, found 3 to 6")));
  EXPECT_THAT(HandBack(held, 5, 7, sent),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rounds of 4 to 6")));
  EXPECT_THAT(HandBack(held, 6, 5, sent),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rounds of 4 to 6")));
  EXPECT_THAT(sent, IsEmpty());
}

TEST(HeldRounds, SyncedRoundsAreDropped) {
  HeldRounds held;
  for (uint64_t round = 1; round <= 5; ++round) Add(held, round);
  EXPECT_EQ(held.bytes(), 20u);
  held.DropUpTo(3);
  EXPECT_EQ(held.first(), 4u);
  EXPECT_EQ(held.bytes(), 8u);
  held.DropUpTo(2);
  EXPECT_EQ(held.first(), 4u);
  held.DropUpTo(9);
  EXPECT_EQ(held.first(), 0u);
  EXPECT_EQ(held.bytes(), 0u);
}

TEST(HeldRounds, TheOldestGoAtTheLimitAndTheLastStays) {
  HeldRounds held(/*max_bytes=*/10);
  Add(held, 1);
  Add(held, 2);
  EXPECT_EQ(held.first(), 1u);
  Add(held, 3);
  EXPECT_EQ(held.first(), 2u);
  EXPECT_EQ(held.bytes(), 8u);
  Add(held, 4, /*bytes=*/100);
  EXPECT_EQ(held.first(), 4u);
  EXPECT_EQ(held.bytes(), 101u);
}

TEST(HeldRounds, AGapStartsTheListAnew) {
  HeldRounds held;
  Add(held, 1);
  Add(held, 2);
  Add(held, 7);
  EXPECT_EQ(held.first(), 7u);
  held.Clear();
  EXPECT_EQ(held.first(), 0u);
}

}  // namespace
}  // namespace tally
