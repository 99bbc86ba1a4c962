#include "server/ledger/fold.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/update/apply_round.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "server/ledger/writer.h"
#include "tests/server/ledger/file_size_limit.h"
#include "tests/server/ledger/real_rounds.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::RandomFloats;
using testing::RealRound;
using testing::SmallLayout;
using testing::StatusIs;
using testing::TestFolder;
using testing::TestRound;
using ::testing::HasSubstr;

constexpr uint64_t kRounds = 12;

// What a job's training rounds are made by. Every fourth round is one of the buffers, and from
// round 7 on the first block is frozen.
struct Method {
  const char* reduction;
  const char* rule;
  size_t slots;
};

void PrintTo(const Method& method, std::ostream* out) { *out << method.rule; }

class FoldTest : public ::testing::TestWithParam<Method> {
 protected:
  void SetUp() override {
    auto writer = LedgerWriter::Open(folder_ / "ledger", layout_.digest(), {.segment_bytes = 4000});
    TALLY_ASSERT_OK(writer);
    writer_ = *std::move(writer);
    TALLY_ASSERT_OK(store_.Write(0, RandomFloats(layout_.size(), 1), {}, "{}"));
    for (uint64_t round = 1; round <= kRounds; ++round) {
      rounds_.push_back(round % 4 == 0
                            ? RealRound(layout_, round, "dense_mean", "assign")
                            : RealRound(layout_, round, GetParam().reduction, GetParam().rule,
                                        round >= 7 ? 1 : 0));
      TALLY_ASSERT_OK(testing::Append(*writer_, rounds_.back()));
    }
    FoldByHand();
  }

  // ApplyRound on plain arrays, round by round: what every fold must equal, bit for bit.
  void FoldByHand() {
    std::vector<float> parameters = RandomFloats(layout_.size(), 1);
    std::vector<std::vector<float>> state(GetParam().slots, std::vector<float>(layout_.size()));
    expected_.push_back(parameters);
    expected_state_.push_back(state);
    for (const TestRound& round : rounds_) {
      std::vector<absl::Span<float>> slots(state.begin(), state.end());
      TALLY_ASSERT_OK(
          ApplyRound(layout_, round.spec, round.spans(), absl::MakeSpan(parameters), slots));
      expected_.push_back(parameters);
      expected_state_.push_back(state);
    }
  }
  Fold FoldFrom(uint64_t round) const {
    const auto snapshot = store_.Open(round);
    EXPECT_THAT(snapshot, testing::IsOk());
    return Fold::FromSnapshot(layout_, **snapshot);
  }
  void ExpectAt(const Fold& fold, uint64_t round) const {
    EXPECT_EQ(fold.round(), round);
    EXPECT_EQ(fold.digest(), ParametersDigest(layout_, expected_[round]));
    EXPECT_EQ(fold.parameters(), absl::MakeConstSpan(expected_[round]));
    const auto state = fold.state();
    for (size_t slot = 0; slot < state.size(); ++slot) {
      EXPECT_EQ(state[slot], absl::MakeConstSpan(expected_state_[round][slot]));
    }
  }

  TestFolder folder_;
  const Layout layout_ = SmallLayout();
  const SnapshotStore store_ = *SnapshotStore::Open(folder_ / "snapshots", layout_);
  std::unique_ptr<LedgerWriter> writer_;
  std::vector<TestRound> rounds_;
  std::vector<std::vector<float>> expected_;
  std::vector<std::vector<std::vector<float>>> expected_state_;
};

TEST_P(FoldTest, EveryRoundMovesSomething) {
  for (uint64_t round = 1; round <= kRounds; ++round) {
    EXPECT_NE(expected_[round], expected_[round - 1]) << round;
  }
}

TEST_P(FoldTest, AllAtOnce) {
  Fold fold = FoldFrom(0);
  ExpectAt(fold, 0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), kRounds));
  ExpectAt(fold, kRounds);
  EXPECT_EQ(fold.state().size(), GetParam().slots);
}

TEST_P(FoldTest, RoundByRoundAsTheyClose) {
  Fold fold = FoldFrom(0);
  for (const TestRound& round : rounds_) {
    TALLY_ASSERT_OK(fold.Apply(round.spec, round.spans()));
    ExpectAt(fold, round.spec.round());
  }
}

// A snapshot at `middle`, then a new fold from it: as after a crash, or in a late joiner.
TEST_P(FoldTest, InAnyGrouping) {
  for (uint64_t middle = 0; middle <= kRounds; ++middle) {
    Fold first = FoldFrom(0);
    TALLY_ASSERT_OK(first.AdvanceTo(writer_->reader(), middle));
    TALLY_ASSERT_OK(first.WriteSnapshot(store_));
    Fold second = FoldFrom(middle);
    ExpectAt(second, middle);
    TALLY_ASSERT_OK(second.AdvanceTo(writer_->reader(), kRounds));
    ExpectAt(second, kRounds);
  }
}

TEST_P(FoldTest, SnapshotKeepsTheConfiguration) {
  Fold fold = FoldFrom(0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), 3));
  TALLY_ASSERT_OK(fold.WriteSnapshot(store_));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store_.Open(3));
  EXPECT_EQ(snapshot->config_json(), "{}");
  EXPECT_EQ(snapshot->parameters_digest(), fold.digest());
  EXPECT_EQ(snapshot->state().size(), GetParam().slots);
}

TEST_P(FoldTest, OnlyTheNextRoundIsApplied) {
  Fold fold = FoldFrom(0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), 2));
  for (const uint64_t wrong : {1, 2, 4}) {
    const TestRound& round = rounds_[wrong - 1];
    EXPECT_THAT(fold.Apply(round.spec, round.spans()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expected round 3")));
  }
  EXPECT_THAT(fold.AdvanceTo(writer_->reader(), 1),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("at round 2")));
  ExpectAt(fold, 2);
}

TEST_P(FoldTest, ARefusedRoundLeavesTheFoldAsItWas) {
  Fold fold = FoldFrom(0);
  TestRound round = rounds_[0];
  round.payloads.back().pop_back();
  EXPECT_THAT(fold.Apply(round.spec, round.spans()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("round 1")));
  ExpectAt(fold, 0);
  EXPECT_TRUE(fold.state().empty());
  TALLY_ASSERT_OK(fold.Apply(rounds_[0].spec, rounds_[0].spans()));
  ExpectAt(fold, 1);
}

TEST_P(FoldTest, AdvancingBeyondTheLedgerStopsAtItsEnd) {
  Fold fold = FoldFrom(0);
  EXPECT_THAT(fold.AdvanceTo(writer_->reader(), kRounds + 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("round 13")));
  ExpectAt(fold, kRounds);
}

// Rounds 1 to 3, the buffers' 4, then 5 and 6: from 7 on a block is frozen.
TEST_P(FoldTest, APassEndsWhereTheChunksChange) {
  Fold fold = FoldFrom(0);
  for (const uint64_t end : {3, 4, 6, 7, 8, 11, 12}) {
    TALLY_ASSERT_OK(fold.AdvanceOnce(writer_->reader(), kRounds));
    ExpectAt(fold, end);
  }
  TALLY_ASSERT_OK(fold.AdvanceOnce(writer_->reader(), kRounds));
  ExpectAt(fold, kRounds);
}

TEST_P(FoldTest, APassKeepsItsLimits) {
  const LedgerReader reader = writer_->reader();
  for (const uint64_t rounds : {1, 2}) {
    Fold fold = FoldFrom(0);
    TALLY_ASSERT_OK(fold.AdvanceOnce(reader, kRounds, {.rounds = rounds}));
    ExpectAt(fold, rounds);
  }
  Fold fold = FoldFrom(0);
  TALLY_ASSERT_OK(fold.AdvanceOnce(reader, kRounds, {.record_bytes = 1}));  // one at least
  ExpectAt(fold, 1);
  const uint64_t bytes = reader.BytesOf(2, 3);
  Fold second = FoldFrom(0);
  TALLY_ASSERT_OK(second.AdvanceOnce(reader, kRounds, {.record_bytes = bytes}));
  ExpectAt(second, reader.BytesOf(1, 2) <= bytes ? 2 : 1);
  TALLY_ASSERT_OK(second.AdvanceOnce(reader, 2, {}));
  ExpectAt(second, 2);
}

TEST_P(FoldTest, AppliesWhatComesBeforeARoundThatCannotBeRead) {
  const std::string path = folder_ / "ledger/0000000001.seg";
  TALLY_ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(path));
  const uint64_t second = kSegmentHeaderBytes + writer_->reader().BytesOf(1, 1);
  ASSERT_LT(second + 60, bytes.size());
  bytes[second + 60] ^= 1;
  testing::Overwrite(path, bytes);
  Fold fold = FoldFrom(0);
  EXPECT_THAT(fold.AdvanceTo(writer_->reader(), kRounds),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("round 2")));
  ExpectAt(fold, 1);
}

TEST_P(FoldTest, ARefusedRoundLeavesTheFoldBeforeItsPass) {
  auto other = LedgerWriter::Open(folder_ / "other", layout_.digest());
  TALLY_ASSERT_OK(other);
  for (TestRound round : {rounds_[0], rounds_[1], rounds_[2]}) {
    if (round.spec.round() == 3) round.spec.set_learning_rate(-1);
    TALLY_ASSERT_OK(testing::Append(**other, testing::Close(round.spec, round.payloads)));
  }
  Fold fold = FoldFrom(0);
  EXPECT_THAT(fold.AdvanceTo((*other)->reader(), 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("round 3")));
  ExpectAt(fold, 0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), kRounds));
  ExpectAt(fold, kRounds);
}

TEST_P(FoldTest, ItsWorkingFilesHaveNoNames) {
  Fold fold = FoldFrom(0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), kRounds));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "snapshots")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("0000000000"));
}

TEST_P(FoldTest, TheSnapshotItBeganWithMayGo) {
  Fold fold = FoldFrom(0);
  TALLY_ASSERT_OK(store_.Remove(0));
  ExpectAt(fold, 0);
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), kRounds));
  ExpectAt(fold, kRounds);
}

TEST_P(FoldTest, MovedFoldGoesOn) {
  Fold first = FoldFrom(0);
  TALLY_ASSERT_OK(first.AdvanceTo(writer_->reader(), 5));
  Fold second = std::move(first);
  TALLY_ASSERT_OK(second.AdvanceTo(writer_->reader(), kRounds));
  ExpectAt(second, kRounds);
}

TEST_P(FoldTest, DigestsAreThoseOfTheParameters) {
  Fold fold = FoldFrom(0);
  for (uint64_t round = 0; round <= kRounds; ++round) {
    TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), round));
    EXPECT_EQ(fold.digest(), ParametersDigest(layout_, expected_[round]));
    EXPECT_EQ(fold.block_digests(), BlockDigests(layout_, expected_[round]));
  }
}

// Without room for the working files nothing changes, and it works when there is some.
TEST_P(FoldTest, NoRoomForTheWorkingCopy) {
  Fold fold = FoldFrom(0);
  for (const uint64_t room : {uint64_t{1}, layout_.size() * 4 - 1}) {
    const testing::FileSizeLimit limit(room);
    EXPECT_THAT(fold.AdvanceTo(writer_->reader(), kRounds),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no working files")));
    ExpectAt(fold, 0);
  }
  TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), kRounds));
  ExpectAt(fold, kRounds);
}

INSTANTIATE_TEST_SUITE_P(Methods, FoldTest,
                         ::testing::Values(Method{"majority", "sign_step", 0},
                                           Method{"sign_mean", "sign_step", 0},
                                           Method{"dense_mean", "lion_step", 1},
                                           Method{"dense_mean", "adamw_step", 2}),
                         [](const auto& info) {
                           return std::string(info.param.reduction) + "_" + info.param.rule;
                         });

uint64_t OwnMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    uint64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes << 10;
  }
  ADD_FAILURE() << "no RssAnon in /proc/self/status";
  return 0;
}

// 64 MiB of parameters and as much state: neither is the process's own memory.
TEST(FoldMemoryTest, ParametersAndStateAreInFiles) {
  constexpr uint64_t kParameters = 16 << 20;
  const TestFolder folder;
  LayoutBuilder builder;
  builder.AddBlock("body").AddTensor("body.weight", {kParameters - 64});
  builder.AddBlock("head").AddTensor("head.weight", {64});
  const Layout layout = *builder.Build();
  const SnapshotStore store = *SnapshotStore::Open(folder / "snapshots", layout);
  TALLY_ASSERT_OK(store.Write(0, std::vector<float>(kParameters, 0.5f), {}, ""));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto snapshot, store.Latest());
  const TestRound first = RealRound(layout, 1, "dense_mean", "lion_step", 1);
  const TestRound second = RealRound(layout, 2, "dense_mean", "lion_step", 1);
  const uint64_t before = OwnMemory();
  Fold fold = Fold::FromSnapshot(layout, *snapshot);
  TALLY_ASSERT_OK(fold.Apply(first.spec, first.spans()));
  TALLY_ASSERT_OK(fold.Apply(second.spec, second.spans()));
  EXPECT_NE(fold.digest(), snapshot->parameters_digest());
  TALLY_ASSERT_OK(fold.WriteSnapshot(store));
  EXPECT_LT(OwnMemory(), before + (8 << 20));
}

}  // namespace
}  // namespace tally
