#include "server/ledger/format.h"

#include <string>

#include "absl/strings/escaping.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/layout/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/record.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::MakeRound;
using testing::StatusIs;
using testing::TestRound;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

std::string Redigested(std::string bytes) {
  bytes.resize(bytes.size() - kDigestBytes);
  PutUint64(Digest64(bytes), &bytes);
  return bytes;
}

std::string RecordBytes(const TestRound& round) {
  const auto record = EncodeRecord(round.spec, round.closed, round.spans(), 0);
  EXPECT_THAT(record, testing::IsOk());
  std::string bytes = record->front;
  for (const Bytes& payload : round.payloads) bytes.append(payload.begin(), payload.end());
  bytes += record->back;
  EXPECT_EQ(bytes.size(), record->length);
  return bytes;
}

TEST(SegmentHeaderTest, BytesAreAsDocumented) {
  const std::string bytes = EncodeSegmentHeader({0x1122334455667788, 258});
  ASSERT_EQ(bytes.size(), kSegmentHeaderBytes);
  EXPECT_EQ(bytes.substr(0, 8), "TALLYLG1");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\1\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(16, 8), "\x88\x77\x66\x55\x44\x33\x22\x11");
  EXPECT_EQ(bytes.substr(24, 8), std::string("\2\1\0\0\0\0\0\0", 8));
  EXPECT_EQ(GetUint64(bytes.data() + 32), Digest64(bytes.substr(0, 32)));
}

TEST(SegmentHeaderTest, RoundTrip) {
  TALLY_ASSERT_OK_AND_ASSIGN(const SegmentHeader header,
                             DecodeSegmentHeader(EncodeSegmentHeader({~uint64_t{0}, 12345})));
  EXPECT_EQ(header.layout_digest, ~uint64_t{0});
  EXPECT_EQ(header.first_round, 12345u);
}

TEST(SegmentHeaderTest, CutShort) {
  const std::string bytes = EncodeSegmentHeader({1, 1});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeSegmentHeader(bytes.substr(0, size)),
                StatusIs(kDataLoss, HasSubstr("expected 40 bytes")));
  }
}

TEST(SegmentHeaderTest, CorruptMagic) {
  std::string bytes = EncodeSegmentHeader({1, 1});
  bytes[0] = 't';
  EXPECT_THAT(DecodeSegmentHeader(bytes), StatusIs(kDataLoss, HasSubstr("magic")));
}

TEST(SegmentHeaderTest, InvalidVersion) {
  std::string bytes = EncodeSegmentHeader({1, 1});
  bytes[8] = 2;
  EXPECT_THAT(DecodeSegmentHeader(Redigested(bytes)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("expected version 1, found 2")));
}

TEST(SegmentHeaderTest, AnyFlippedBitIsFound) {
  const std::string bytes = EncodeSegmentHeader({77, 1});
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_FALSE(DecodeSegmentHeader(flipped).ok()) << bit;
  }
}

TEST(RecordHeadTest, RoundTrip) {
  const RecordHead head{5, 48 + 3 + 4 + 5 * 16 + 100 + 8, uint64_t{1} << 40, 99, 3, 4};
  TALLY_ASSERT_OK_AND_ASSIGN(const RecordHead back, DecodeRecordHead(EncodeRecordHead(head)));
  EXPECT_EQ(back.chunks, head.chunks);
  EXPECT_EQ(back.length, head.length);
  EXPECT_EQ(back.round, head.round);
  EXPECT_EQ(back.synced, head.synced);
  EXPECT_EQ(back.spec_bytes, head.spec_bytes);
  EXPECT_EQ(back.closed_bytes, head.closed_bytes);
}

TEST(RecordHeadTest, LengthThatCannotHoldItsPartsIsRefused) {
  for (const RecordHead& head : {RecordHead{0, 0, 1, 0, 0, 0}, RecordHead{0, 55, 1, 0, 0, 0},
                                 RecordHead{1, 56, 1, 0, 0, 0},
                                 RecordHead{0xFFFFFFFF, 1000, 1, 0, 0xFFFFFFFF, 0xFFFFFFFF}}) {
    EXPECT_THAT(DecodeRecordHead(EncodeRecordHead(head)), StatusIs(kDataLoss, HasSubstr("length")));
  }
}

TEST(RecordTest, SmallestRecordIsAsDocumented) {
  v1::RoundSpec spec;
  spec.set_round(1);
  TestRound round = testing::Close(spec, {});
  const std::string bytes = RecordBytes(round);
  std::string head("RND1\0\0\0\0\x45\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24);
  head += std::string("\0\0\0\0\0\0\0\0\2\0\0\0\x0b\0\0\0", 16);
  PutUint64(Digest64(head), &head);
  std::string expected = head + "\x08\x01\x08\x01\x19\xc2\x94\xd3\x38\x05\x80\x06\x2d";
  PutUint64(Digest64(expected), &expected);
  EXPECT_EQ(absl::BytesToHexString(bytes), absl::BytesToHexString(expected));
}

TEST(RecordTest, RoundTrip) {
  for (const uint32_t chunks : {0u, 1u, 5u}) {
    for (const size_t size : {0u, 1u, 1000u}) {
      const TestRound round = MakeRound(9, chunks, size);
      const std::string bytes = RecordBytes(round);
      TALLY_ASSERT_OK_AND_ASSIGN(const ParsedRecord record, ParseRecord(bytes));
      EXPECT_EQ(record.spec.SerializeAsString(), round.spec.SerializeAsString());
      EXPECT_EQ(record.closed.SerializeAsString(), round.closed.SerializeAsString());
      ASSERT_EQ(record.aggregates.size(), chunks);
      for (uint32_t i = 0; i < chunks; ++i) EXPECT_EQ(record.aggregates[i], round.spans()[i]);
    }
  }
}

TEST(RecordTest, AnyFlippedBitIsFound) {
  const std::string bytes = RecordBytes(MakeRound(3, 2, 5));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_THAT(ParseRecord(flipped), StatusIs(kDataLoss, ::testing::_)) << bit;
  }
}

TEST(RecordTest, OtherLengthIsRefused) {
  const std::string bytes = RecordBytes(MakeRound(3, 2, 5));
  EXPECT_THAT(ParseRecord(bytes + "x"), StatusIs(kDataLoss, HasSubstr("length")));
  EXPECT_THAT(ParseRecord(bytes.substr(0, bytes.size() - 1)),
              StatusIs(kDataLoss, HasSubstr("length")));
}

TEST(EncodeRecordTest, PartsOfDifferentRoundsAreRefused) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  TestRound round = MakeRound(3);
  round.closed.set_round(4);
  EXPECT_THAT(EncodeRecord(round.spec, round.closed, round.spans(), 0),
              StatusIs(kInvalid, HasSubstr("found round 4")));
  round = MakeRound(3);
  round.payloads.pop_back();
  EXPECT_THAT(EncodeRecord(round.spec, round.closed, round.spans(), 0),
              StatusIs(kInvalid, HasSubstr("expected 2 chunks, found 3")));
  round = MakeRound(3);
  round.payloads[1][0] ^= 1;
  EXPECT_THAT(EncodeRecord(round.spec, round.closed, round.spans(), 0),
              StatusIs(kInvalid, HasSubstr("digest")));
}

// The example of docs/ledger-format.md, made by the writer from a real vote.
constexpr char kDocumentedExample[] =
    "54414c4c594c47310100000000000000"
    "da779f4d83dbac540100000000000000"
    "e91df9c6064a8529524e443101000000"
    "93000000000000000100000000000000"
    "00000000000000002200000019000000"
    "ccbb923852303a9b080112086d616a6f"
    "726974791a097369676e5f7374657021"
    "000000000000e03f5840080110011962"
    "98700a8d00ca7e22010039437245b31d"
    "9405a6100000000000000048907234d9"
    "44e1ac00000000000000000500000000"
    "000000c4570c4a77842db6";

TEST(DocumentedExampleTest, IsWhatTheWriterWrites) {
  LayoutBuilder builder;
  const Layout layout = *builder.AddBlock("head").AddTensor("w", {3}).Build();
  v1::RoundSpec spec;
  spec.set_round(1);
  spec.set_reduction("majority");
  spec.set_update_rule("sign_step");
  spec.set_learning_rate(0.5);
  spec.set_chunk_elements(64);
  const Reduction* majority = *FindReduction("majority");
  const Bytes vote = majority->Pack({.first_lane = 0}, {1.0f, -1.0f, 1.0f}, 0);
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes aggregate,
                             majority->Reduce({0, 3, 0, false}, {Contribution{vote}}));
  TestRound round = testing::Close(spec, {aggregate});
  round.closed.add_voters(0);

  const testing::TestFolder folder;
  TALLY_ASSERT_OK_AND_ASSIGN(const auto writer,
                             LedgerWriter::Open(folder.path(), layout.digest()));
  TALLY_ASSERT_OK(testing::Append(*writer, round));
  TALLY_ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(folder / "0000000001.seg"));
  EXPECT_EQ(absl::BytesToHexString(bytes), kDocumentedExample);
}

TEST(SegmentNameTest, RoundTrip) {
  EXPECT_EQ(SegmentName(1), "0000000001.seg");
  EXPECT_EQ(SegmentName(12345678901), "12345678901.seg");
  for (const uint64_t round : {uint64_t{1}, uint64_t{9999999999}, uint64_t{12345678901}}) {
    EXPECT_EQ(ParseSegmentName(SegmentName(round)), round);
  }
}

TEST(SegmentNameTest, OtherNamesAreNoSegments) {
  for (const char* name : {"", ".seg", "1.seg", "0000000001", "00000000001.seg", "000000000x.seg",
                           "-000000001.seg", " 000000001.seg", "0000000001.seg.tmp.7",
                           "99999999999999999999999.seg"}) {
    EXPECT_EQ(ParseSegmentName(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace tally
