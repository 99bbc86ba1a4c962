// What a crash and a bad disk do to a ledger, each by its name.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "server/ledger/reader.h"
#include "server/ledger/writer.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::Append;
using testing::ExpectSame;
using testing::kLayoutDigest;
using testing::MakeRound;
using testing::StatusIs;
using testing::TestFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

// Segments of three rounds, 1 to 3, 4 to 6, 7 and 8, all synced but the last two; bounds_ are those
// of the last segment's records.
class CorruptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = LedgerWriter::Open(ledger_, kLayoutDigest, options_);
    TALLY_ASSERT_OK(writer);
    for (uint64_t round = 1; round <= 8; ++round) {
      TALLY_ASSERT_OK(Append(**writer, MakeRound(round)));
    }
    ASSERT_TRUE(std::filesystem::exists(Segment(4)));
    ASSERT_TRUE(std::filesystem::exists(Segment(7)));
    const std::string bytes = Contents(7);
    for (size_t at = kSegmentHeaderBytes; at < bytes.size();) {
      bounds_.push_back(at);
      at += DecodeRecordHead(bytes.substr(at))->length;
    }
    ASSERT_EQ(bounds_.size(), 2u);
    bounds_.push_back(bytes.size());
  }

  std::string Segment(uint64_t first_round) const {
    return absl::StrCat(ledger_, "/", SegmentName(first_round));
  }
  std::string Contents(uint64_t first_round) const { return *ReadFile(Segment(first_round)); }
  void SetContents(uint64_t first_round, const std::string& bytes) const {
    testing::Overwrite(Segment(first_round), bytes);
  }
  void Flip(uint64_t first_round, size_t at) const {
    std::string bytes = Contents(first_round);
    ASSERT_LT(at, bytes.size());
    bytes[at] ^= 1;
    SetContents(first_round, bytes);
  }
  absl::StatusOr<std::unique_ptr<LedgerWriter>> OpenWriter() const {
    return LedgerWriter::Open(ledger_, kLayoutDigest, options_);
  }
  absl::StatusOr<LedgerReader> OpenReader() const {
    return LedgerReader::Open(ledger_, kLayoutDigest);
  }
  // Writer and reader both refuse, with the segment's name.
  void ExpectRefused(absl::StatusCode code, uint64_t first_round, const std::string& why) const {
    const auto told = AllOf(HasSubstr(SegmentName(first_round)), HasSubstr(why));
    EXPECT_THAT(OpenReader(), StatusIs(code, told));
    EXPECT_THAT(OpenWriter(), StatusIs(code, told));
  }
  // The tail from `last` + 1 on is cut, and the ledger goes on behind it.
  void ExpectCutAfter(uint64_t last, uint64_t cut_bytes) const {
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader before, OpenReader());
    EXPECT_EQ(before.last_round(), last);
    TALLY_ASSERT_OK_AND_ASSIGN(const auto writer, OpenWriter());
    EXPECT_EQ(writer->last_round(), last);
    EXPECT_EQ(writer->cut_bytes(), cut_bytes);
    EXPECT_EQ(writer->cut_reason().empty(), cut_bytes == 0);
    TALLY_ASSERT_OK(Append(*writer, MakeRound(last + 1)));
    for (uint64_t round = 1; round <= last + 1; ++round) {
      TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, writer->reader().Read(round));
      ExpectSame(found, MakeRound(round));
    }
  }

  TestFolder folder_;
  const std::string ledger_ = folder_ / "ledger";
  const LedgerOptions options_{.segment_bytes = 500};
  std::vector<size_t> bounds_;
};

TEST_F(CorruptionTest, TornTailAtEveryByteOfTheLastRecord) {
  const std::string whole = Contents(7);
  for (size_t size = bounds_[1]; size < whole.size(); ++size) {
    SetContents(7, whole.substr(0, size));
    ExpectCutAfter(7, size - bounds_[1]);
  }
}

TEST_F(CorruptionTest, TornTailAtEveryByteOfTheOnlyRecord) {
  const std::string whole = Contents(7);
  for (size_t size = kSegmentHeaderBytes; size < bounds_[1]; ++size) {
    SetContents(7, whole.substr(0, size));
    ExpectCutAfter(6, size - kSegmentHeaderBytes);
  }
}

// The file has its full size, but a part of the last record never reached the disk.
TEST_F(CorruptionTest, TailOfZerosFromEveryByteOfTheLastRecord) {
  const std::string whole = Contents(7);
  for (size_t size = bounds_[1]; size < whole.size(); ++size) {
    std::string bytes = whole.substr(0, size);
    bytes.resize(whole.size());
    if (bytes == whole) continue;
    SetContents(7, bytes);
    ExpectCutAfter(7, whole.size() - bounds_[1]);
  }
}

TEST_F(CorruptionTest, AnyFlippedBitOfTheLastRecordCutsIt) {
  const std::string whole = Contents(7);
  for (size_t at = bounds_[1]; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= static_cast<char>(1 << at % 8);
    SetContents(7, bytes);
    ExpectCutAfter(7, whole.size() - bounds_[1]);
  }
}

// After a power cut the second of two records may be on the disk and the first not.
TEST_F(CorruptionTest, BadRecordThatWasNotSyncedIsCutWithWhatFollows) {
  Flip(7, bounds_[0] + kRecordHeadBytes);
  ExpectCutAfter(6, bounds_[2] - bounds_[0]);
}

TEST_F(CorruptionTest, BadRecordThatWasSyncedIsNotCut) {
  {
    TALLY_ASSERT_OK_AND_ASSIGN(const auto writer, OpenWriter());  // syncs what there is
    TALLY_ASSERT_OK(Append(*writer, MakeRound(9)));
  }
  for (const size_t at : {bounds_[0], bounds_[0] + 8, bounds_[1] - 1, bounds_[1] + 20}) {
    const std::string before = Contents(7);
    Flip(7, at);
    ExpectRefused(kDataLoss, 7, absl::StrCat("at offset ", at < bounds_[1] ? bounds_[0]
                                                                          : bounds_[1]));
    SetContents(7, before);
  }
  TALLY_EXPECT_OK(OpenWriter());
}

TEST_F(CorruptionTest, CorruptMagic) {
  Flip(4, 0);
  ExpectRefused(kDataLoss, 4, "magic");
}

TEST_F(CorruptionTest, CorruptHeaderDigest) {
  Flip(4, kSegmentHeaderBytes - 1);
  ExpectRefused(kDataLoss, 4, "digest");
}

TEST_F(CorruptionTest, HeaderCutShort) {
  SetContents(7, Contents(7).substr(0, kSegmentHeaderBytes - 1));
  ExpectRefused(kDataLoss, 7, "expected 40 bytes, found 39");
}

TEST_F(CorruptionTest, EmptySegment) {
  SetContents(7, "");
  ExpectRefused(kDataLoss, 7, "expected 40 bytes, found 0");
}

TEST_F(CorruptionTest, InvalidVersion) {
  std::string bytes = Contents(4);
  bytes[8] = 9;
  SetContents(4, bytes);
  ExpectRefused(absl::StatusCode::kFailedPrecondition, 4, "expected version 1, found 9");
}

TEST_F(CorruptionTest, WrongLayout) {
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  const auto told = AllOf(HasSubstr("layout"), HasSubstr(DigestToString(7)),
                          HasSubstr(DigestToString(kLayoutDigest)));
  EXPECT_THAT(LedgerWriter::Open(ledger_, 7), StatusIs(kRefused, told));
  EXPECT_THAT(LedgerReader::Open(ledger_, 7), StatusIs(kRefused, told));
}

TEST_F(CorruptionTest, WrongLayoutInALaterSegment) {
  SetContents(4, EncodeSegmentHeader({7, 4}) + Contents(4).substr(kSegmentHeaderBytes));
  ExpectRefused(absl::StatusCode::kFailedPrecondition, 4, "layout");
}

TEST_F(CorruptionTest, RenamedSegment) {
  std::filesystem::rename(Segment(1), Segment(2));
  ExpectRefused(kDataLoss, 2, "expected first round 2 as in the file's name, found 1");
}

TEST_F(CorruptionTest, GapBetweenSegments) {
  std::filesystem::remove(Segment(4));
  ExpectRefused(kDataLoss, 7, "a gap between segments: expected round 4");
}

TEST_F(CorruptionTest, SegmentCutBeforeTheNext) {
  const std::string bytes = Contents(4);
  SetContents(4, bytes.substr(0, bytes.size() - 1));
  ExpectRefused(kDataLoss, 4, "round 6");
}

TEST_F(CorruptionTest, SegmentWithoutItsLastRound) {
  std::string bytes = Contents(4);
  size_t at = kSegmentHeaderBytes;
  for (int i = 0; i < 2; ++i) at += DecodeRecordHead(bytes.substr(at))->length;
  SetContents(4, bytes.substr(0, at));
  ExpectRefused(kDataLoss, 7, "a gap between segments: expected round 6");
}

TEST_F(CorruptionTest, CorruptLength) {
  Flip(4, kSegmentHeaderBytes + 8);
  ExpectRefused(kDataLoss, 4, "at offset 40");
}

TEST_F(CorruptionTest, RecordOfAnotherRound) {
  const std::string bytes = Contents(4);
  SetContents(4, bytes.substr(0, kSegmentHeaderBytes) +
                     Contents(1).substr(kSegmentHeaderBytes));
  ExpectRefused(kDataLoss, 4, "expected round 4, found 1");
}

// Damage inside a record of an earlier segment shows when the round is read; others can be read.
class ReadCorruptionTest : public CorruptionTest {
 protected:
  // Offset in segment 4, whose first record is round 4.
  void ExpectRoundFourIsLost(size_t at, const std::string& why) {
    Flip(4, at);
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader reader, OpenReader());
    EXPECT_THAT(reader.Read(4), StatusIs(kDataLoss, AllOf(HasSubstr(SegmentName(4)),
                                                          HasSubstr("at offset 40: round 4"),
                                                          HasSubstr(why))));
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, reader.Read(5));
    ExpectSame(found, MakeRound(5));
  }
  RecordHead Head() const { return *DecodeRecordHead(Contents(4).substr(kSegmentHeaderBytes)); }
  size_t EntriesAt() const {
    return kSegmentHeaderBytes + kRecordHeadBytes + Head().spec_bytes + Head().closed_bytes;
  }
};

TEST_F(ReadCorruptionTest, CorruptSpec) {
  ExpectRoundFourIsLost(kSegmentHeaderBytes + kRecordHeadBytes, "record: expected digest");
}

TEST_F(ReadCorruptionTest, CorruptClosed) {
  ExpectRoundFourIsLost(kSegmentHeaderBytes + kRecordHeadBytes + Head().spec_bytes,
                        "record: expected digest");
}

TEST_F(ReadCorruptionTest, CorruptChunkLength) {
  ExpectRoundFourIsLost(EntriesAt(), "record: expected digest");
}

TEST_F(ReadCorruptionTest, CorruptChunkDigest) {
  ExpectRoundFourIsLost(EntriesAt() + 8, "record: expected digest");
}

TEST_F(ReadCorruptionTest, CorruptPayload) {
  ExpectRoundFourIsLost(EntriesAt() + 3 * kChunkEntryBytes + 10, "chunk 1: expected digest");
}

TEST_F(ReadCorruptionTest, CorruptRecordDigest) {
  ExpectRoundFourIsLost(kSegmentHeaderBytes + Head().length - 1, "record: expected digest");
}

TEST_F(ReadCorruptionTest, SegmentCutWhileItIsRead) {
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader reader, OpenReader());
  std::filesystem::resize_file(Segment(4), 100);
  EXPECT_THAT(reader.Read(4), StatusIs(kDataLoss, HasSubstr("before the record does")));
}

TEST_F(ReadCorruptionTest, SegmentRemovedWhileItIsRead) {
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader reader, OpenReader());
  std::filesystem::remove(Segment(4));
  EXPECT_THAT(reader.Read(4), StatusIs(absl::StatusCode::kNotFound, HasSubstr(SegmentName(4))));
}

}  // namespace
}  // namespace tally
