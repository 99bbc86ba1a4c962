// Each kind of corruption of the majority aggregate, by name.
#include "common/reduction/majority/majority_payload.h"

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

// Lane 0: plus, minus, then ties. Lane 1: nobody votes. Lane 2: plus, tie.
Bytes Example() {
  VoteList a(kCount, 1), b(kCount, -1);
  b[0] = 1;
  a[1] = -1;
  for (int i = 64; i < 128; ++i) a[i] = b[i] = 0;
  b[128] = 1;
  const Bytes first = ReferencePack(a), second = ReferencePack(b);
  const std::vector<Contribution> both = {{first, 1}, {second, 1}};
  return *(*FindReduction("majority"))->Reduce({.count = kCount, .zero_ties = true}, both);
}

void ExpectRefused(const Bytes& payload, absl::string_view message, uint32_t count = kCount) {
  EXPECT_THAT(CheckMajority(count, payload),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))));
}

constexpr size_t kSigns = 8, kNonzero = 32, kMask = 56;

TEST(MajorityPayload, ExampleOfThePage) {
  const Bytes a = ReferencePack({1, 1, -1}), b = ReferencePack({1, -1, -1});
  const std::vector<Contribution> both = {{a, 1}, {b, 1}};
  const Bytes expected = {2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(*(*FindReduction("majority"))->Reduce({.count = 3, .zero_ties = true}, both), expected);
}

TEST(MajorityPayload, PlanesInTheirPlaces) {
  const Bytes payload = Example();
  ASSERT_EQ(payload.size(), MajorityPayloadBytes(kCount, true, true));
  TALLY_EXPECT_OK(CheckMajority(kCount, payload));
  EXPECT_EQ(payload[0], 3);
  EXPECT_EQ(payload[kSigns], 1);
  EXPECT_EQ(payload[kNonzero], 3);
  EXPECT_EQ(payload[kNonzero + 16], 1);
  EXPECT_EQ(payload[kMask], 5);
}

TEST(MajorityPayload, NonzeroPlaneIsLeftOutWithoutTies) {
  const Bytes one = ReferencePack(VoteList(kCount, 1));
  const std::vector<Contribution> votes = {{one, 1}, {one, 1}};
  const auto result =
      (*FindReduction("majority"))->Reduce({.count = kCount, .zero_ties = true}, votes);
  EXPECT_EQ(result->size(), MajorityPayloadBytes(kCount, false, false));
}

TEST(MajorityPayload, NoElements) { ExpectRefused(Bytes(8), "at least one element", 0); }

TEST(MajorityPayload, ShorterThanHead) { ExpectRefused(Bytes(7), "found 7 bytes"); }

TEST(MajorityPayload, Truncated) {
  Bytes payload = Example();
  payload.pop_back();
  ExpectRefused(payload, "expected 64 bytes, found 63");
}

TEST(MajorityPayload, Extended) {
  Bytes payload = Example();
  payload.push_back(0);
  ExpectRefused(payload, "expected 64 bytes, found 65");
}

TEST(MajorityPayload, UnknownFlag) {
  Bytes payload = Example();
  payload[0] |= 4;
  ExpectRefused(payload, "unknown flags");
}

TEST(MajorityPayload, ReservedHeadByte) {
  Bytes payload = Example();
  payload[7] = 1;
  ExpectRefused(payload, "head byte 7 is reserved");
}

TEST(MajorityPayload, PaddingBitsOfSigns) {
  Bytes payload = Example();
  payload[kSigns + 16] |= 4;
  ExpectRefused(payload, "padding bits of the signs");
}

TEST(MajorityPayload, PaddingBitsOfNonzeroPlane) {
  Bytes payload = Example();
  payload[kNonzero + 16] |= 4;
  ExpectRefused(payload, "padding bits of the nonzero plane");
}

TEST(MajorityPayload, PaddingBitsOfLaneMask) {
  Bytes payload = Example();
  payload[kMask] |= 8;
  ExpectRefused(payload, "padding bits of the lane mask");
}

TEST(MajorityPayload, PlusThatIsATie) {
  Bytes payload = Example();
  payload[kSigns] |= 4;
  ExpectRefused(payload, "lane 0 has a plus that is a tie");
}

TEST(MajorityPayload, ResultInLaneWithoutVoters) {
  Bytes payload = Example();
  payload[kSigns + 8] = 1;
  ExpectRefused(payload, "lane 1 had no voters");
  payload = Example();
  payload[kNonzero + 8] = 1;
  ExpectRefused(payload, "lane 1 had no voters");
}

TEST(MajorityPayload, MaskThatSaysNothing) {
  Bytes payload = Example();
  payload[kMask] = 7;
  ExpectRefused(payload, "no lane is silent");
}

TEST(MajorityPayload, NonzeroPlaneThatSaysNothing) {
  Bytes payload = Example();
  std::fill_n(payload.begin() + kNonzero, 8, 0xff);
  payload[kNonzero + 16] = 3;
  ExpectRefused(payload, "nothing tied");
}

}  // namespace
}  // namespace tally
