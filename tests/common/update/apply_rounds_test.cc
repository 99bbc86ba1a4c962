// Several rounds in one pass against ApplyRound round after round, bit for bit.
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/sign_payload.h"
#include "common/update/apply_round.h"
#include "common/update/update_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/targets.h"
#include "tests/common/update/bits.h"

namespace tally {
namespace {

using testing::BitsOf;
using testing::ForEachTarget;
using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A block that a pass takes in two parts, an odd one, one of a single element, and buffers.
Layout TestLayout() {
  LayoutBuilder builder;
  builder.AddBlock("large").AddTensor("large.weight", {32'768 + 1'000});
  builder.AddBlock("odd").AddTensor("odd.weight", {7, 19});
  builder.AddBlock("one").AddTensor("one.scale", {});
  builder.AddBuffersBlock("buffers").AddTensor("mean", {10});
  return *builder.Build();
}

std::vector<float> RandomFloats(size_t count, uint64_t key) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int64_t>(RandomWord(key, i)) * 0x1p-63);
  }
  return values;
}

struct Round {
  v1::RoundSpec spec;
  std::vector<Bytes> payloads;
  std::vector<ByteSpan> spans;
};

struct Kind {
  const char* reduction;
  const char* rule;
  bool zero_ties = false;
  bool silent_lanes = false;  // lanes in which nobody votes
};

v1::RoundSpec SpecOf(const Kind& kind, uint64_t number, uint32_t first_active_block,
                     uint32_t chunk_elements) {
  v1::RoundSpec spec;
  spec.set_round(number);
  spec.set_step(number);
  spec.set_reduction(kind.reduction);
  spec.set_update_rule(kind.rule);
  spec.set_learning_rate(0.02 / static_cast<double>(number));
  spec.set_weight_decay(0.1 * static_cast<double>(number % 3));
  spec.set_beta1(0.9);
  spec.set_beta2(0.99);
  spec.set_epsilon(1e-8);
  spec.set_tie_key(number);
  spec.set_zero_ties(kind.zero_ties);
  spec.set_chunk_elements(chunk_elements);
  spec.set_buffers(absl::string_view(kind.rule) == "assign");
  spec.set_first_active_block(spec.buffers() ? 0 : first_active_block);
  return spec;
}

// A worker's sign vote in which every third lane abstains.
void Silence(Bytes& payload, uint32_t count) {
  std::vector<uint64_t> words(LaneCount(count)), mask(MaskWords(LaneCount(count)));
  for (size_t lane = 0; lane < words.size(); ++lane) {
    if (lane % 3 == 1) continue;
    words[lane] = LoadWord(payload.data() + kHeadBytes, lane);
    mask[lane / 64] |= uint64_t{1} << lane % 64;
  }
  payload = WriteSignPayload(words, mask);
}

Bytes AggregateOf(const Kind& kind, const v1::RoundSpec& spec, const Chunk& chunk) {
  const Reduction* reduction = *FindReduction(kind.reduction);
  std::vector<Bytes> payloads;
  for (uint64_t worker = 0; worker < 4; ++worker) {  // four, so that votes tie
    const uint64_t key = StreamKey(spec.round(), worker, chunk.first, RandomPurpose::kAugment);
    payloads.push_back(reduction->Pack({.first_lane = chunk.first_lane}, RandomFloats(chunk.count, key), key));
    if (kind.silent_lanes) Silence(payloads.back(), chunk.count);
  }
  std::vector<Contribution> contributions;
  for (const Bytes& payload : payloads) contributions.push_back({payload});
  auto aggregate = reduction->Reduce(
      {chunk.first_lane, chunk.count, spec.tie_key(), spec.zero_ties()}, contributions);
  EXPECT_THAT(aggregate, testing::IsOk());
  return *std::move(aggregate);
}

class ApplyRoundsTest : public ::testing::Test {
 protected:
  void Add(const Kind& kind, uint32_t first_active_block = 0, uint32_t chunk_elements = 1 << 20) {
    Round round;
    round.spec = SpecOf(kind, rounds_.size() + 1, first_active_block, chunk_elements);
    const auto grid = GridForRound(layout_, round.spec);
    TALLY_ASSERT_OK(grid);
    for (const Chunk& chunk : grid->chunks()) {
      round.payloads.push_back(AggregateOf(kind, round.spec, chunk));
    }
    rounds_.push_back(std::move(round));
    rounds_.back().spans = {rounds_.back().payloads.begin(), rounds_.back().payloads.end()};
  }
  std::vector<LedgerStep> Steps() const {
    std::vector<LedgerStep> steps;
    for (const Round& round : rounds_) steps.push_back({&round.spec, round.spans});
    return steps;
  }
  void Start() {
    parameters_ = RandomFloats(layout_.size(), 1);
    state_ = {RandomFloats(layout_.size(), 2), std::vector<float>(layout_.size(), 0.5f)};
  }
  std::vector<absl::Span<float>> State() { return {state_.begin(), state_.end()}; }

  void ExpectOnePassIsRoundAfterRound() {
    Start();
    for (const Round& round : rounds_) {
      TALLY_ASSERT_OK(
          ApplyRound(layout_, round.spec, round.spans, absl::MakeSpan(parameters_), State()));
    }
    const std::vector<float> expected = parameters_;
    const std::vector<std::vector<float>> expected_state = state_;
    ForEachTarget([&] {
      Start();
      TALLY_ASSERT_OK(ApplyRounds(layout_, Steps(), absl::MakeSpan(parameters_), State()));
      EXPECT_EQ(BitsOf(parameters_), BitsOf(expected));
      for (size_t slot = 0; slot < state_.size(); ++slot) {
        EXPECT_EQ(BitsOf(state_[slot]), BitsOf(expected_state[slot]));
      }
    });
  }
  // Refused, and not a bit has changed.
  void ExpectRefused(uint64_t round, const std::string& why) {
    Start();
    EXPECT_THAT(ApplyRounds(layout_, Steps(), absl::MakeSpan(parameters_), State()),
                StatusIs(kInvalid, AllOf(HasSubstr(absl::StrCat("round ", round)),
                                         HasSubstr(why))));
    const std::vector<float> found = parameters_;
    const std::vector<std::vector<float>> found_state = state_;
    Start();
    EXPECT_EQ(found, parameters_);
    EXPECT_EQ(found_state, state_);
  }

  const Layout layout_ = TestLayout();
  std::vector<Round> rounds_;
  std::vector<float> parameters_;
  std::vector<std::vector<float>> state_;
};

const Kind kKinds[] = {
    {"majority", "sign_step"},
    {"majority", "sign_step", /*zero_ties=*/true},
    {"majority", "sign_step", /*zero_ties=*/true, /*silent_lanes=*/true},
    {"sign_mean", "sign_step"},
    {"sign_mean", "sign_step", false, /*silent_lanes=*/true},
    {"dense_mean", "lion_step"},
    {"dense_mean", "adamw_step"},
    {"dense_mean", "assign"},
};

TEST_F(ApplyRoundsTest, EachKindOfRound) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(absl::StrCat(kind.reduction, " ", kind.rule, " ", kind.zero_ties,
                              kind.silent_lanes));
    for (const size_t count : {1, 2, 5}) {
      rounds_.clear();
      while (rounds_.size() < count) Add(kind);
      ExpectOnePassIsRoundAfterRound();
    }
  }
}

TEST_F(ApplyRoundsTest, FrozenPrefixes) {
  for (const uint32_t first_active_block : {1u, 2u}) {
    for (const Kind& kind : kKinds) {
      rounds_.clear();
      for (int i = 0; i < 3; ++i) Add(kind, first_active_block);
      ExpectOnePassIsRoundAfterRound();
    }
  }
}

TEST_F(ApplyRoundsTest, SmallChunks) {
  for (const uint32_t chunk_elements : {64u, 192u, 32'768u}) {
    rounds_.clear();
    for (int i = 0; i < 3; ++i) Add(kKinds[i], 0, chunk_elements);
    ExpectOnePassIsRoundAfterRound();
  }
}

// Votes of each kind, and one rule after the other with the state that both use.
TEST_F(ApplyRoundsTest, KindsMayDifferWithinAPass) {
  for (size_t i = 0; i + 1 < std::size(kKinds); ++i) Add(kKinds[i]);
  for (size_t i = 0; i + 1 < std::size(kKinds); ++i) Add(kKinds[i]);
  ExpectOnePassIsRoundAfterRound();
}

TEST_F(ApplyRoundsTest, SixteenRounds) {
  for (int i = 0; i < 16; ++i) Add(kKinds[i % 3], /*first_active_block=*/1);
  ExpectOnePassIsRoundAfterRound();
}

TEST_F(ApplyRoundsTest, NoRoundsChangeNothing) {
  Start();
  const std::vector<float> before = parameters_;
  TALLY_ASSERT_OK(ApplyRounds(layout_, {}, absl::MakeSpan(parameters_), State()));
  EXPECT_EQ(parameters_, before);
}

TEST_F(ApplyRoundsTest, AnyBadRoundLeavesEverythingUnchanged) {
  for (size_t bad = 0; bad < 3; ++bad) {
    rounds_.clear();
    for (int i = 0; i < 3; ++i) Add(kKinds[0]);
    rounds_[bad].payloads.back().pop_back();
    rounds_[bad].spans.back() = rounds_[bad].payloads.back();
    ExpectRefused(bad + 1, "chunk 2");
  }
}

TEST_F(ApplyRoundsTest, WrongNumbersInALaterRoundLeaveEverythingUnchanged) {
  for (int i = 0; i < 3; ++i) Add(kKinds[5]);
  rounds_[2].spec.set_learning_rate(std::numeric_limits<double>::infinity());
  ExpectRefused(3, "learning_rate");
}

TEST_F(ApplyRoundsTest, RoundsOfOtherChunksAreRefused) {
  Add(kKinds[0]);
  Add(kKinds[0], /*first_active_block=*/1);
  EXPECT_FALSE(SameGrid(rounds_[0].spec, rounds_[1].spec));
  ExpectRefused(2, "not those of round 1");
  rounds_.pop_back();
  Add(kKinds[0], 0, 64);
  ExpectRefused(2, "not those of round 1");
  rounds_.pop_back();
  Add({"dense_mean", "assign"});
  ExpectRefused(2, "not those of round 1");
}

TEST_F(ApplyRoundsTest, RoundsThatAreNotConsecutiveAreRefused) {
  for (int i = 0; i < 3; ++i) Add(kKinds[0]);
  rounds_.erase(rounds_.begin() + 1);
  ExpectRefused(3, "expected round 2");
}

TEST(UpdateRulePartTest, APartThatIsNoneOfTheChunksLanesIsRefused) {
  const UpdateRule* rule = *FindUpdateRule("sign_step");
  std::vector<float> x(64);
  for (const ChunkPart part : {ChunkPart{200, 1}, ChunkPart{200, 192}, ChunkPart{63, 0},
                               ChunkPart{200, 4'294'967'232}}) {
    EXPECT_THAT(rule->ApplyAll({UpdateStep{}}, part, absl::MakeSpan(x), {}),
                StatusIs(kInvalid, HasSubstr("no lanes of a chunk")));
  }
}

}  // namespace
}  // namespace tally
