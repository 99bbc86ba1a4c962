// Writer and reader together: what is appended is read back, across segments, restarts and threads.
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/update/history.h"
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

std::unique_ptr<LedgerWriter> OpenWriter(const std::string& folder,
                                         const LedgerOptions& options = {}) {
  auto writer = LedgerWriter::Open(folder, kLayoutDigest, options);
  EXPECT_THAT(writer, testing::IsOk());
  return *std::move(writer);
}

void AppendRounds(LedgerWriter& writer, uint64_t first, uint64_t last) {
  for (uint64_t round = first; round <= last; ++round) {
    TALLY_ASSERT_OK(Append(writer, MakeRound(round)));
  }
}

void ExpectRounds(const LedgerReader& reader, uint64_t first, uint64_t last) {
  EXPECT_EQ(reader.first_round(), first);
  EXPECT_EQ(reader.last_round(), last);
  for (uint64_t round = last; round >= first; --round) {
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, reader.Read(round));
    ExpectSame(found, MakeRound(round));
  }
}

size_t CountSegments(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += ParseSegmentName(entry.path().filename().string()).has_value();
  }
  return count;
}

TEST(LedgerTest, ReadsWhatWasAppended) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  const LedgerReader reader = writer->reader();
  AppendRounds(*writer, 1, 5);
  EXPECT_EQ(writer->last_round(), 5u);
  ExpectRounds(reader, 1, 5);
}

TEST(LedgerTest, EmptyLedger) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  EXPECT_EQ(writer->last_round(), 0u);
  EXPECT_THAT(writer->reader().Read(1), StatusIs(absl::StatusCode::kNotFound, HasSubstr("empty")));
  TALLY_EXPECT_OK(writer->Sync());
}

TEST(LedgerTest, RoundsBeforeTheFirstAndAfterTheLastAreNotFound) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger", {.first_round = 10});
  AppendRounds(*writer, 10, 12);
  for (const uint64_t round : {uint64_t{0}, uint64_t{9}, uint64_t{13}, ~uint64_t{0}}) {
    EXPECT_THAT(writer->reader().Read(round),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("there are 10 to 12")));
  }
}

TEST(LedgerTest, FirstRoundZeroIsRefused) {
  const TestFolder folder;
  EXPECT_THAT(LedgerWriter::Open(folder / "ledger", kLayoutDigest, {.first_round = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("first_round")));
}

TEST(LedgerTest, RoundsMustBeConsecutive) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(Append(*writer, MakeRound(2)), StatusIs(kRefused, HasSubstr("expected round 1")));
  AppendRounds(*writer, 1, 2);
  EXPECT_THAT(Append(*writer, MakeRound(2)), StatusIs(kRefused, HasSubstr("found 2")));
  EXPECT_THAT(Append(*writer, MakeRound(4)), StatusIs(kRefused, HasSubstr("found 4")));
  AppendRounds(*writer, 3, 3);
  ExpectRounds(writer->reader(), 1, 3);
}

TEST(LedgerTest, TheHistoryIsThatOfTheRounds) {
  const TestFolder folder;
  uint64_t expected = 0;
  for (uint64_t round = 1; round <= 6; ++round) {
    const auto writer = OpenWriter(folder / "ledger", {.segment_bytes = 500});
    EXPECT_EQ(writer->last_history(), expected);
    AppendRounds(*writer, round, round);
    expected = RoundHistory(expected, MakeRound(round).closed);
    EXPECT_EQ(writer->last_history(), expected);
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, writer->reader().Read(round));
    EXPECT_EQ(found.closed.history(), expected);
  }
}

TEST(LedgerTest, ARoundOfAnotherHistoryIsRefused) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  AppendRounds(*writer, 1, 1);
  testing::TestRound round = MakeRound(2);
  const uint64_t right = RoundHistory(writer->last_history(), round.closed);
  for (const uint64_t wrong : {uint64_t{0}, right + 1, RoundHistory(0, round.closed)}) {
    round.closed.set_history(wrong);
    EXPECT_THAT(writer->Append(round.spec, round.closed, round.spans()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("round 2: expected history"),
                               HasSubstr(DigestToString(right)))));
  }
  EXPECT_EQ(writer->last_round(), 1u);
  AppendRounds(*writer, 2, 2);
  EXPECT_EQ(writer->last_history(), right);
}

TEST(LedgerTest, ALedgerBegunAfterASnapshotIsToldItsHistory) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger", {.first_round = 10, .first_history = 77});
  EXPECT_EQ(writer->last_history(), 77u);
  AppendRounds(*writer, 10, 10);
  EXPECT_EQ(writer->last_history(), RoundHistory(77, MakeRound(10).closed));
}

TEST(LedgerTest, ARoundThatDoesNotFitItsClosingIsNotWritten) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  testing::TestRound round = MakeRound(1);
  round.payloads[0][0] ^= 1;
  EXPECT_THAT(Append(*writer, round),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("digest")));
  EXPECT_EQ(writer->last_round(), 0u);
  AppendRounds(*writer, 1, 1);
  ExpectRounds(writer->reader(), 1, 1);
}

TEST(LedgerTest, MovedRoundKeepsItsSpans) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  AppendRounds(*writer, 1, 1);
  TALLY_ASSERT_OK_AND_ASSIGN(LedgerRound found, writer->reader().Read(1));
  const LedgerRound moved = std::move(found);
  ExpectSame(moved, MakeRound(1));
}

TEST(LedgerTest, MoreChunksThanOneSystemCallTakes) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  const testing::TestRound round = MakeRound(1, 5000, 3);
  TALLY_ASSERT_OK(Append(*writer, round));
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, writer->reader().Read(1));
  ExpectSame(found, round);
}

TEST(LedgerTest, RoundsWithoutChunksAndWithEmptyPayloads) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  TALLY_ASSERT_OK(Append(*writer, MakeRound(1, 0)));
  TALLY_ASSERT_OK(Append(*writer, MakeRound(2, 3, 0)));
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound first, writer->reader().Read(1));
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound second, writer->reader().Read(2));
  ExpectSame(first, MakeRound(1, 0));
  ExpectSame(second, MakeRound(2, 3, 0));
}

TEST(LedgerTest, GoesOnAfterARestart) {
  const TestFolder folder;
  for (uint64_t start = 1; start <= 9; start += 3) {
    const auto writer = OpenWriter(folder / "ledger");
    EXPECT_EQ(writer->last_round(), start - 1);
    EXPECT_EQ(writer->synced_round(), start - 1);
    EXPECT_EQ(writer->cut_bytes(), 0u);
    AppendRounds(*writer, start, start + 2);
    ExpectRounds(writer->reader(), 1, start + 2);
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader reader,
                             LedgerReader::Open(folder / "ledger", kLayoutDigest));
  ExpectRounds(reader, 1, 9);
}

TEST(LedgerTest, StartsASegmentWhenOneIsFull) {
  const TestFolder folder;
  const LedgerOptions options{.segment_bytes = 500};
  {
    const auto writer = OpenWriter(folder / "ledger", options);
    AppendRounds(*writer, 1, 20);
    ExpectRounds(writer->reader(), 1, 20);
  }
  const size_t segments = CountSegments(folder / "ledger");
  EXPECT_GT(segments, 4u);
  EXPECT_LT(segments, 20u);
  const auto writer = OpenWriter(folder / "ledger", options);
  AppendRounds(*writer, 21, 25);
  ExpectRounds(writer->reader(), 1, 25);
}

TEST(LedgerTest, ASegmentHasAtLeastOneRound) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger", {.segment_bytes = 1});
  AppendRounds(*writer, 1, 4);
  EXPECT_EQ(CountSegments(folder / "ledger"), 4u);
  ExpectRounds(writer->reader(), 1, 4);
}

TEST(LedgerTest, SyncedRoundFollowsSync) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger");
  AppendRounds(*writer, 1, 3);
  EXPECT_EQ(writer->synced_round(), 0u);
  TALLY_ASSERT_OK(writer->Sync());
  EXPECT_EQ(writer->synced_round(), 3u);
  AppendRounds(*writer, 4, 4);
  EXPECT_EQ(writer->synced_round(), 3u);
}

TEST(LedgerTest, HalfMadeSegmentsAreRemoved) {
  const TestFolder folder;
  AppendRounds(*OpenWriter(folder / "ledger"), 1, 1);
  const std::string left_over = folder / "ledger/0000000002.seg.tmp.77";
  testing::Overwrite(left_over, "half");
  ExpectRounds(OpenWriter(folder / "ledger")->reader(), 1, 1);
  EXPECT_FALSE(std::filesystem::exists(left_over));
}

TEST(LedgerTest, ReaderOfAFolderThatIsNotThere) {
  const TestFolder folder;
  EXPECT_THAT(LedgerReader::Open(folder / "none", kLayoutDigest),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST(LedgerTest, ReadersFollowTheWriter) {
  const TestFolder folder;
  const auto writer = OpenWriter(folder / "ledger", {.segment_bytes = 2000});
  constexpr uint64_t kRounds = 300;
  const auto follow = [reader = writer->reader()] {
    for (uint64_t next = 1; next <= kRounds;) {
      if (reader.last_round() < next) {
        std::this_thread::yield();
        continue;
      }
      const auto found = reader.Read(next);
      ASSERT_THAT(found, testing::IsOk());
      ExpectSame(*found, MakeRound(next));
      ++next;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(follow);
  std::thread syncer([&] {
    while (writer->synced_round() < kRounds) EXPECT_THAT(writer->Sync(), testing::IsOk());
  });
  AppendRounds(*writer, 1, kRounds);
  for (std::thread& thread : threads) thread.join();
  syncer.join();
}

}  // namespace
}  // namespace tally
