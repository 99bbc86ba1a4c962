#include "server/ledger/keep.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "tests/server/ledger/real_rounds.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::Append;
using testing::ExpectSame;
using testing::MakeRound;
using testing::StatusIs;
using testing::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Rounds = std::vector<uint64_t>;
constexpr std::optional<uint64_t> kAll;

struct Case {
  const char* name;
  std::optional<uint64_t> keep_rounds;
  std::optional<uint64_t> keep_snapshots;
  Rounds segments;
  uint64_t last_round;
  Rounds snapshots;
  Rounds segments_that_go;
  Rounds snapshots_that_go;
};

const Case kCases[] = {
    {"NothingThere", 1, 1, {}, 0, {}, {}, {}},
    {"OnlyTheBase", 1, 1, {}, 0, {0}, {}, {}},
    {"AllRoundsAllSnapshots", kAll, kAll, {1, 11, 21}, 30, {0, 10, 20, 30}, {}, {}},
    {"AllRoundsThreeSnapshots", kAll, 3, {1, 11, 21}, 30, {0, 5, 10, 20, 30}, {}, {5}},
    // Every snapshot can be folded from, the base included.
    {"FewRoundsAllSnapshots", 1, kAll, {1, 11, 21}, 30, {0, 10, 20, 30}, {}, {}},
    {"BaseIsOneOfTheNewest", 1, 3, {1, 11, 21}, 30, {0, 20, 30}, {}, {}},
    // Round 20 ends the second segment and is the oldest snapshot's own: it stays.
    {"OwnRoundOfTheOldestSnapshotStays", 1, 2, {1, 11, 21}, 30, {0, 20, 30}, {1}, {0}},
    {"BaseGoesWithRound1", 1, 1, {1, 11, 21}, 30, {0, 10, 25}, {1, 11}, {0, 10}},
    {"LastSegmentStays", 1, 1, {1, 11, 21}, 30, {0, 30}, {1, 11}, {0}},
    {"RoundsAskedForStay", 20, 1, {1, 11, 21}, 30, {0, 30}, {1}, {0}},
    {"OneRoundMoreKeepsItsSegment", 21, 1, {1, 11, 21}, 30, {0, 30}, {}, {}},
    {"MoreRoundsThanThereAre", 100, 1, {1, 11, 21}, 30, {0, 30}, {}, {}},
    {"WholeSegmentsOnly", 1, 1, {1, 11, 21}, 30, {0, 15}, {1}, {0}},
    {"NothingInTheFirstSegmentIsOldEnough", 1, 1, {1, 11, 21}, 30, {0, 10}, {}, {}},
    {"GoesOnWhereItLeftOff", 1, 2, {11, 21, 31}, 40, {20, 30, 40}, {11}, {20}},
    // 5 cannot be continued by a ledger from 11 on, so it holds back nothing.
    {"SnapshotBeforeTheLedgerHoldsBackNothing", 1, 3, {11, 21, 31}, 40, {5, 30, 40}, {11}, {}},
    {"SnapshotJustBeforeTheLedgerCounts", 1, 3, {11, 21, 31}, 40, {10, 30, 40}, {}, {}},
    {"NoSnapshotToStartFrom", 1, 3, {11, 21, 31}, 40, {5}, {}, {}},
    {"EmptyLastSegment", 1, 1, {1, 11, 21}, 20, {0, 20}, {1}, {0}},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class DecideKeepTest : public ::testing::TestWithParam<Case> {};

TEST_P(DecideKeepTest, SaysWhatGoes) {
  const Case& c = GetParam();
  const LedgerKeep keep{.keep_rounds = c.keep_rounds, .keep_snapshots = c.keep_snapshots};
  const KeepDecision found = DecideKeep(keep, {c.segments, c.last_round, c.snapshots});
  EXPECT_EQ(found.segments, c.segments_that_go);
  EXPECT_EQ(found.snapshots, c.snapshots_that_go);
  const uint64_t first =
      c.segments_that_go.empty() ? 0 : c.segments[c.segments_that_go.size()];
  EXPECT_EQ(found.first_kept_round, first);
}

// Whatever the numbers: what is left can be folded to its end from every snapshot that is left and
// could be before, the newest one included, and the last rounds asked for are there.
TEST(DecideKeepAlwaysTest, WhatIsLeftCanBeFolded) {
  for (uint64_t rounds = 1; rounds <= 12; ++rounds) {
    for (uint64_t kept_snapshots = 1; kept_snapshots <= 4; ++kept_snapshots) {
      for (uint64_t every = 1; every <= 7; ++every) {
        for (uint64_t segment = 1; segment <= 5; ++segment) {
          KeepFacts facts;
          facts.last_round = 12;
          for (uint64_t first = 1; first <= 12; first += segment) facts.segments.push_back(first);
          for (uint64_t at = 0; at <= 12; at += every) facts.snapshots.push_back(at);
          const KeepDecision found =
              DecideKeep({.keep_rounds = rounds, .keep_snapshots = kept_snapshots}, facts);
          const uint64_t first = std::max<uint64_t>(1, found.first_kept_round);
          EXPECT_LE(first, 12 - rounds + 1);
          for (const uint64_t at : facts.snapshots) {
            if (std::count(found.snapshots.begin(), found.snapshots.end(), at) > 0) continue;
            EXPECT_LE(first, at == 0 ? 1 : at);
          }
          EXPECT_LE(found.snapshots.size() + std::min<size_t>(kept_snapshots, facts.snapshots.size()),
                    facts.snapshots.size());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, DecideKeepTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CheckKeepTest, NothingKeptIsRefused) {
  TALLY_EXPECT_OK(CheckKeep({}));
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(CheckKeep({.keep_rounds = 0}), refused("keep_rounds"));
  EXPECT_THAT(CheckKeep({.keep_snapshots = 0}), refused("keep_snapshots"));
  EXPECT_THAT(CheckKeep({.segment_bytes = 0}), refused("segment_bytes"));
}

// Segments of two rounds each.
class KeepTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    writer_.reset();
    auto writer = LedgerWriter::Open(ledger_, layout_.digest(), {.segment_bytes = 300});
    TALLY_ASSERT_OK(writer);
    writer_ = *std::move(writer);
  }
  void AppendUpTo(uint64_t last) {
    while (writer_->last_round() < last) {
      TALLY_ASSERT_OK(Append(*writer_, MakeRound(writer_->last_round() + 1)));
    }
  }
  void WriteSnapshot(uint64_t round) {
    TALLY_ASSERT_OK(
        store_.Write(round, testing::RandomFloats(layout_.size(), round + 1), {}, "{}"));
  }
  void ExpectRounds(uint64_t first, uint64_t last) const {
    const LedgerReader reader = writer_->reader();
    EXPECT_EQ(reader.first_round(), first);
    EXPECT_EQ(reader.last_round(), last);
    for (uint64_t round = first; round <= last; ++round) {
      TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, reader.Read(round));
      ExpectSame(found, MakeRound(round));
    }
    EXPECT_THAT(reader.Read(first - 1), StatusIs(absl::StatusCode::kNotFound, ::testing::_));
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(ledger_),
                                             std::filesystem::directory_iterator()));
  }

  TestFolder folder_;
  const std::string ledger_ = folder_ / "ledger";
  const Layout layout_ = testing::SmallLayout();
  const SnapshotStore store_ = *SnapshotStore::Open(folder_ / "snapshots", layout_);
  std::unique_ptr<LedgerWriter> writer_;
};

TEST_F(KeepTest, AppliesTheDecision) {
  const LedgerKeep keep{.keep_rounds = 2, .keep_snapshots = 2};
  WriteSnapshot(0);
  for (uint64_t round = 4; round <= 20; round += 4) {
    AppendUpTo(round);
    WriteSnapshot(round);
    TALLY_ASSERT_OK(ApplyKeep(keep, *writer_, store_));
    EXPECT_THAT(*store_.List(), ElementsAre(round - 4, round));
    EXPECT_LE(writer_->first_round(), std::max<uint64_t>(round - 4, 1));
  }
  EXPECT_GT(writer_->first_round(), 12u);
  EXPECT_THAT(*store_.List(), ElementsAre(16, 20));
}

TEST_F(KeepTest, DroppedRoundsAreNotFoundAndTheRestGoesOn) {
  AppendUpTo(9);
  const LedgerReader reader = writer_->reader();
  TALLY_ASSERT_OK(reader.Read(1));
  const uint64_t third = writer_->SegmentStarts()[2];
  TALLY_ASSERT_OK(writer_->DropBefore(third));
  EXPECT_THAT(reader.Read(1),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(absl::StrCat("there are ", third, " to 9"))));
  ExpectRounds(third, 9);
  AppendUpTo(12);
  ExpectRounds(third, 12);
}

TEST_F(KeepTest, OnlyWholeSegmentsGo) {
  AppendUpTo(9);
  const Rounds starts = writer_->SegmentStarts();
  TALLY_ASSERT_OK(writer_->DropBefore(starts[1] - 1));
  ExpectRounds(1, 9);
  TALLY_ASSERT_OK(writer_->DropBefore(starts[2] - 1));
  ExpectRounds(starts[1], 9);
  EXPECT_EQ(Files(), starts.size() - 1);
}

TEST_F(KeepTest, TheLastRoundIsNeverDropped) {
  AppendUpTo(9);
  TALLY_ASSERT_OK(writer_->DropBefore(~uint64_t{0}));
  ExpectRounds(writer_->SegmentStarts().back(), 9);
  EXPECT_EQ(Files(), 1u);
}

// A crash after a segment's start leaves it empty: the history is in the one before.
TEST_F(KeepTest, AnEmptyLastSegmentDoesNotStandForTheLastRound) {
  AppendUpTo(9);
  const uint64_t history = writer_->last_history();
  testing::Overwrite(absl::StrCat(ledger_, "/", SegmentName(10)),
                     EncodeSegmentHeader({layout_.digest(), 10}));
  Open();
  EXPECT_EQ(writer_->last_history(), history);
  TALLY_ASSERT_OK(writer_->DropBefore(100));
  EXPECT_EQ(writer_->last_round(), 9u);
  Open();
  EXPECT_EQ(writer_->last_history(), history);
}

TEST_F(KeepTest, ALedgerThatBeginsLaterIsOpenedAsAnyOther) {
  AppendUpTo(9);
  const uint64_t first = writer_->SegmentStarts()[2];
  const uint64_t history = writer_->last_history();
  TALLY_ASSERT_OK(writer_->DropBefore(first));
  Open();
  EXPECT_EQ(writer_->last_history(), history);
  ExpectRounds(first, 9);
  AppendUpTo(11);
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerReader reader,
                             LedgerReader::Open(ledger_, layout_.digest()));
  EXPECT_EQ(reader.first_round(), first);
  EXPECT_EQ(reader.last_round(), 11u);
}

// The folder in which one segment cannot be removed is one of its own name.
TEST_F(KeepTest, WhatCannotBeRemovedIsRemovedLater) {
  AppendUpTo(9);
  const Rounds starts = writer_->SegmentStarts();
  const std::string first = absl::StrCat(ledger_, "/", SegmentName(1));
  std::filesystem::rename(first, first + ".kept");
  std::filesystem::create_directory(first);
  EXPECT_FALSE(writer_->DropBefore(starts[2]).ok());
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(ledger_, "/", SegmentName(starts[1]))));
  std::filesystem::remove(first);
  TALLY_ASSERT_OK(writer_->DropBefore(0));
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(ledger_, "/", SegmentName(starts[1]))));
  ExpectRounds(starts[2], 9);
}

TEST_F(KeepTest, ReadersMeetTheDropInTheMiddle) {
  AppendUpTo(200);
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, reader = writer_->reader()] {
      while (!done) {
        for (uint64_t round = 1; round <= 200; ++round) {
          const auto found = reader.Read(round);
          if (found.ok()) {
            EXPECT_EQ(found->spec.round(), round);
          } else {
            EXPECT_THAT(found.status(), StatusIs(absl::StatusCode::kNotFound,
                                                 HasSubstr(absl::StrCat("round ", round,
                                                                        ": there are"))));
            EXPECT_LT(round, reader.first_round());
          }
        }
      }
    });
  }
  for (const uint64_t start : writer_->SegmentStarts()) {
    EXPECT_THAT(writer_->DropBefore(start), testing::IsOk());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(writer_->SegmentStarts().size(), 1u);
}

TEST_F(KeepTest, BytesOfAreThoseOfTheRecordsThereAre) {
  EXPECT_EQ(writer_->reader().BytesOf(1, 100), 0u);
  AppendUpTo(9);
  const LedgerReader reader = writer_->reader();
  uint64_t each = reader.BytesOf(3, 3);
  EXPECT_GT(each, 56u);
  uint64_t sum = 0;
  for (uint64_t round = 1; round <= 9; ++round) sum += reader.BytesOf(round, round);
  EXPECT_EQ(reader.BytesOf(1, 9), sum);
  EXPECT_EQ(reader.BytesOf(0, ~uint64_t{0}), sum);
  EXPECT_EQ(reader.BytesOf(4, 7) + reader.BytesOf(1, 3) + reader.BytesOf(8, 9), sum);
  EXPECT_EQ(reader.BytesOf(10, 20), 0u);
  uint64_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(ledger_)) {
    files += file.file_size() - kSegmentHeaderBytes;
  }
  EXPECT_EQ(sum, files);
}

}  // namespace
}  // namespace tally
