// Each kind of corruption of the sign contribution, by name.
#include "common/reduction/sign_payload.h"

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

// The example of the header: elements 0 and 129 plus, lane 1 silent.
constexpr uint32_t kCount = 130;
Bytes Example() { return WriteSignPayload({1, 0, 2}, {5}); }

void ExpectRefused(const Bytes& payload, absl::string_view message, uint32_t count = kCount) {
  EXPECT_THAT(CheckSignPayload(count, payload),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))));
}

TEST(SignPayload, ExampleOfThePage) {
  const Bytes expected = {1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                          0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(Example(), expected);
  TALLY_EXPECT_OK(CheckSignPayload(kCount, Example()));
  EXPECT_EQ(Example().size(), SignPayloadBytes(kCount, true));
}

TEST(SignPayload, ReadsWhatItWrote) {
  const Bytes payload = Example();
  TALLY_ASSERT_OK_AND_ASSIGN(const SignView view, ParseSignPayload(kCount, payload));
  EXPECT_EQ(view.lanes, 3u);
  EXPECT_EQ(LoadWord(view.signs, 2), 2u);
  EXPECT_TRUE(view.votes(0));
  EXPECT_FALSE(view.votes(1));
}

TEST(SignPayload, MaskWithoutSilentLanesIsLeftOut) {
  const Bytes payload = WriteSignPayload({1, 0, 2}, {7});
  EXPECT_EQ(payload.size(), SignPayloadBytes(kCount, false));
  TALLY_EXPECT_OK(CheckSignPayload(kCount, payload));
}

TEST(SignPayload, NoElements) { ExpectRefused(Bytes(8), "at least one element", 0); }

TEST(SignPayload, ShorterThanHead) {
  ExpectRefused({}, "found 0 bytes");
  ExpectRefused(Bytes(7), "found 7 bytes");
}

TEST(SignPayload, Truncated) {
  Bytes payload = Example();
  payload.pop_back();
  ExpectRefused(payload, "expected 40 bytes, found 39");
}

TEST(SignPayload, Extended) {
  Bytes payload = Example();
  payload.push_back(0);
  ExpectRefused(payload, "expected 40 bytes, found 41");
}

TEST(SignPayload, UnknownFlag) {
  Bytes payload = Example();
  payload[0] |= 2;
  ExpectRefused(payload, "unknown flags in head byte 0: 0x03");
}

TEST(SignPayload, ReservedHeadByte) {
  for (size_t i = 1; i < 8; ++i) {
    Bytes payload = Example();
    payload[i] = 9;
    ExpectRefused(payload, "is reserved: expected 0, found 9");
  }
}

TEST(SignPayload, FlagWithoutMask) {
  Bytes payload = WriteSignPayload({1, 0, 2}, {});
  payload[0] = 1;
  ExpectRefused(payload, "expected 40 bytes, found 32");
}

TEST(SignPayload, MaskWithoutFlag) {
  Bytes payload = Example();
  payload[0] = 0;
  ExpectRefused(payload, "expected 32 bytes, found 40");
}

TEST(SignPayload, PaddingBitsOfSigns) {
  ExpectRefused(WriteSignPayload({1, 0, 6}, {5}), "padding bits of the signs are set in word 2");
}

TEST(SignPayload, PaddingBitsOfLaneMask) {
  ExpectRefused(WriteSignPayload({1, 0, 2}, {13}), "padding bits of the lane mask");
}

TEST(SignPayload, VotesInSilentLane) {
  ExpectRefused(WriteSignPayload({1, 4, 2}, {5}), "lane 1 is silent but has votes");
}

TEST(SignPayload, MaskThatSaysNothing) {
  Bytes payload = Example();
  payload[32] = 7;
  ExpectRefused(payload, "no lane is silent");
}

}  // namespace
}  // namespace tally
