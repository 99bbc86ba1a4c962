// Each kind of corruption of the sign_mean aggregate, by name.
#include "common/reduction/sign_mean/sign_mean_payload.h"

#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/reference.h"

namespace tally {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReferencePack;
using testing::StatusIs;
using testing::VoteList;

constexpr uint32_t kCount = 130;
constexpr size_t kPlanes = 8, kLaneVoters = 8 + 2 * 24;

// Three voters; the third is silent in lane 1. All vote plus.
Bytes Example() {
  VoteList all(kCount, 1), partial(kCount, 1);
  for (int i = 64; i < 128; ++i) partial[i] = 0;
  const Bytes a = ReferencePack(all), b = ReferencePack(partial);
  const std::vector<Contribution> three = {{a, 1}, {a, 1}, {b, 1}};
  return *(*FindReduction("sign_mean"))->Reduce({.count = kCount}, three);
}

void ExpectRefused(const Bytes& payload, absl::string_view message, uint32_t count = kCount) {
  EXPECT_THAT(CheckSignMean(count, payload),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))));
}

TEST(SignMeanPayload, ExampleOfThePage) {
  const Bytes a = ReferencePack({1, 1}), b = ReferencePack({1, -1});
  const std::vector<Contribution> three = {{a, 1}, {b, 1}, {b, 1}};
  const Bytes expected = {0, 3, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(*(*FindReduction("sign_mean"))->Reduce({.count = 2}, three), expected);
}

TEST(SignMeanPayload, LaneVotersInTheirPlace) {
  const Bytes payload = Example();
  ASSERT_EQ(payload.size(), SignMeanPayloadBytes(kCount, 3, true));
  TALLY_EXPECT_OK(CheckSignMean(kCount, payload));
  EXPECT_EQ(Bytes(payload.begin() + kLaneVoters, payload.end()), (Bytes{3, 2, 3, 0, 0, 0, 0, 0}));
}

TEST(SignMeanPayload, NoElements) {
  ExpectRefused({0, 3, 0, 0, 0, 0, 0, 0}, "at least one element", 0);
}

TEST(SignMeanPayload, ShorterThanHead) { ExpectRefused(Bytes(7), "found 7 bytes"); }

TEST(SignMeanPayload, NoVoters) {
  Bytes payload = Example();
  payload[1] = 0;
  ExpectRefused(payload, "at least one voter");
}

TEST(SignMeanPayload, Truncated) {
  Bytes payload = Example();
  payload.pop_back();
  ExpectRefused(payload, "expected 64 bytes, found 63");
}

TEST(SignMeanPayload, Extended) {
  Bytes payload = Example();
  payload.push_back(0);
  ExpectRefused(payload, "expected 64 bytes, found 65");
}

TEST(SignMeanPayload, OtherNumberOfPlanes) {
  Bytes payload = Example();
  payload[1] = 4;
  ExpectRefused(payload, "expected 88 bytes, found 64");
}

TEST(SignMeanPayload, UnknownFlag) {
  Bytes payload = Example();
  payload[0] |= 2;
  ExpectRefused(payload, "unknown flags");
}

TEST(SignMeanPayload, ReservedHeadByte) {
  Bytes payload = Example();
  payload[2] = 1;
  ExpectRefused(payload, "head byte 2 is reserved");
}

TEST(SignMeanPayload, PaddingBitsOfEachPlane) {
  for (size_t plane = 0; plane < 2; ++plane) {
    Bytes payload = Example();
    payload[kPlanes + plane * 24 + 16] |= 4;
    ExpectRefused(payload, "padding bits of the plane " + std::to_string(plane));
  }
}

TEST(SignMeanPayload, CountAboveVoters) {
  Bytes payload = Example();
  payload[kPlanes + 8] |= 1;
  ExpectRefused(payload, "lane 1 has a count above its 2 voters");
}

TEST(SignMeanPayload, MoreLaneVotersThanVoters) {
  Bytes payload = Example();
  payload[kLaneVoters] = 4;
  ExpectRefused(payload, "lane 0 has 4 voters of 3");
}

TEST(SignMeanPayload, PaddingOfLaneVoters) {
  Bytes payload = Example();
  payload[kLaneVoters + 3] = 1;
  ExpectRefused(payload, "padding of the lane voters");
}

TEST(SignMeanPayload, LaneVotersThatSayNothing) {
  Bytes payload = Example();
  payload[kLaneVoters + 1] = 3;
  ExpectRefused(payload, "every lane has all");
}

}  // namespace
}  // namespace tally
