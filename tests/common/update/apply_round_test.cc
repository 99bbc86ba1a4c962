#include "common/update/apply_round.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Blocks of 130 and 70 elements and buffers of 10; chunks of 64: 3 + 2, and 1.
Layout TestLayout() {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.weight", {13, 10});
  builder.AddBlock("b").AddTensor("b.weight", {70});
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

class ApplyRoundTest : public ::testing::Test {
 protected:
  ApplyRoundTest() : parameters_(RandomFloats(layout_.size(), 1)) {
    spec_.set_round(5);
    spec_.set_reduction("majority");
    spec_.set_update_rule("sign_step");
    spec_.set_learning_rate(0.125);
    spec_.set_weight_decay(0.5);
    spec_.set_beta1(0.9);
    spec_.set_beta2(0.99);
    spec_.set_epsilon(1e-8);
    spec_.set_step(3);
    spec_.set_chunk_elements(64);
  }

  // The aggregate of three workers' random values.
  void Reduce() {
    const Reduction* reduction = *FindReduction(spec_.reduction());
    aggregates_.clear();
    const ChunkGrid grid = *GridForRound(layout_, spec_);
    for (const Chunk& chunk : grid.chunks()) {
      std::vector<Bytes> payloads;
      for (uint64_t worker = 0; worker < 3; ++worker) {
        payloads.push_back(reduction->Pack({.first_lane = chunk.first_lane},
                                           RandomFloats(chunk.count, chunk.first * 8 + worker + 2),
                                           worker));
      }
      const std::vector<Contribution> contributions = {
          {payloads[0], 1}, {payloads[1], 2}, {payloads[2], 3}};
      auto aggregate = reduction->Reduce({chunk.first_lane, chunk.count, 9, false}, contributions);
      ASSERT_THAT(aggregate, testing::IsOk());
      aggregates_.push_back(*std::move(aggregate));
    }
  }
  // One number an element of the round's grid, from its first element on.
  std::vector<float> Unpacked() const {
    std::vector<float> all;
    const ChunkGrid grid = *GridForRound(layout_, spec_);
    for (uint32_t i = 0; i < grid.size(); ++i) {
      const auto part =
          (*FindReduction(spec_.reduction()))->Unpack({.count = grid[i].count}, aggregates_[i]);
      EXPECT_THAT(part, testing::IsOk());
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  absl::Status Apply() {
    const std::vector<ByteSpan> spans(aggregates_.begin(), aggregates_.end());
    std::vector<absl::Span<float>> state(state_.begin(), state_.end());
    return ApplyRound(layout_, spec_, spans, absl::MakeSpan(parameters_), state);
  }
  // Refused, and not a bit of parameters and state has changed.
  void ExpectRefused(absl::StatusCode code, const std::string& why) {
    const std::vector<float> before = parameters_;
    const std::vector<std::vector<float>> state_before = state_;
    EXPECT_THAT(Apply(), StatusIs(code, AllOf(HasSubstr("round 5"), HasSubstr(why))));
    EXPECT_EQ(parameters_, before);
    EXPECT_EQ(state_, state_before);
  }
  void UseLion() {
    spec_.set_reduction("dense_mean");
    spec_.set_update_rule("lion_step");
    state_ = {RandomFloats(layout_.size(), 77)};
  }

  const Layout layout_ = TestLayout();
  v1::RoundSpec spec_;
  std::vector<Bytes> aggregates_;
  std::vector<float> parameters_;
  std::vector<std::vector<float>> state_;
};

TEST_F(ApplyRoundTest, SignStepIsOneFusedMultiplyAddAnElement) {
  for (const char* reduction : {"majority", "sign_mean"}) {
    spec_.set_reduction(reduction);
    Reduce();
    std::vector<float> expected = parameters_;
    const std::vector<float> s = Unpacked();
    ASSERT_EQ(s.size(), layout_.trained_size());
    for (size_t i = 0; i < s.size(); ++i) {
      expected[i] = std::fma(expected[i], static_cast<float>(1 - 0.125 * 0.5), -0.125f * s[i]);
    }
    TALLY_ASSERT_OK(Apply());
    EXPECT_EQ(parameters_, expected) << reduction;
  }
}

TEST_F(ApplyRoundTest, FrozenBlocksAndBuffersKeepTheirBits) {
  spec_.set_first_active_block(1);
  Reduce();
  const std::vector<float> before = parameters_;
  TALLY_ASSERT_OK(Apply());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool active = i >= 130 && i < 200;
    EXPECT_EQ(parameters_[i] != before[i], active) << i;
  }
}

TEST_F(ApplyRoundTest, BuffersRoundAssignsTheMean) {
  spec_.set_buffers(true);
  spec_.set_reduction("dense_mean");
  spec_.set_update_rule("assign");
  Reduce();
  std::vector<float> expected = parameters_;
  const std::vector<float> mean = Unpacked();
  ASSERT_EQ(mean.size(), 10u);
  std::copy(mean.begin(), mean.end(), expected.begin() + 200);
  TALLY_ASSERT_OK(Apply());
  EXPECT_EQ(parameters_, expected);
}

TEST_F(ApplyRoundTest, LionMovesItsMomentumWithTheParameters) {
  UseLion();
  Reduce();
  const std::vector<float> g = Unpacked(), m = state_[0];
  std::vector<float> x = parameters_, new_m = m;
  for (size_t i = 0; i < g.size(); ++i) {
    const float c = 0.9f * m[i] + static_cast<float>(1 - 0.9) * g[i];
    x[i] = std::fma(x[i], static_cast<float>(1 - 0.125 * 0.5), c > 0 ? -0.125f : 0.125f);
    new_m[i] = 0.99f * m[i] + static_cast<float>(1 - 0.99) * g[i];
  }
  TALLY_ASSERT_OK(Apply());
  EXPECT_EQ(parameters_, x);
  EXPECT_EQ(state_[0], new_m);  // that of the buffers included: it stays
}

TEST_F(ApplyRoundTest, StateBeyondTheRulesSlotsIsLeftAlone) {
  UseLion();
  state_.push_back(RandomFloats(layout_.size(), 78));
  const std::vector<float> before = state_[1];
  Reduce();
  TALLY_ASSERT_OK(Apply());
  EXPECT_EQ(state_[1], before);
}

TEST_F(ApplyRoundTest, TheGridOfChunksDoesNotMatter) {
  UseLion();
  std::vector<std::vector<float>> results;
  const std::vector<float> parameters = parameters_, momentum = state_[0];
  const std::vector<float> gradient = RandomFloats(layout_.trained_size(), 3);
  for (const uint32_t chunk_elements : {64u, 128u, 1u << 18}) {
    spec_.set_chunk_elements(chunk_elements);
    parameters_ = parameters;
    state_[0] = momentum;
    aggregates_.clear();
    const ChunkGrid grid = *GridForRound(layout_, spec_);
    for (const Chunk& chunk : grid.chunks()) {
      aggregates_.push_back(WriteDense(absl::MakeSpan(gradient).subspan(chunk.first, chunk.count)));
    }
    TALLY_ASSERT_OK(Apply());
    results.push_back(parameters_);
    results.push_back(state_[0]);
  }
  EXPECT_EQ(results[2], results[0]);
  EXPECT_EQ(results[4], results[0]);
  EXPECT_EQ(results[3], results[1]);
  EXPECT_EQ(results[5], results[1]);
}

TEST_F(ApplyRoundTest, ADamagedChunkLeavesEverythingUnchanged) {
  Reduce();
  const std::vector<Bytes> whole = aggregates_;
  for (size_t i = 0; i < whole.size(); ++i) {
    aggregates_ = whole;
    aggregates_[i].pop_back();
    ExpectRefused(kInvalid, absl::StrCat("chunk ", i));
  }
}

TEST_F(ApplyRoundTest, ANonfiniteMeanLeavesEverythingUnchanged) {
  UseLion();
  Reduce();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(aggregates_.back().data() + 8, &nan, sizeof nan);
  ExpectRefused(kInvalid, "chunk 4");
}

TEST_F(ApplyRoundTest, MissingAndSurplusChunksAreRefused) {
  Reduce();
  aggregates_.push_back(aggregates_.back());
  ExpectRefused(kInvalid, "expected 5 chunks, found 6");
  aggregates_.resize(4);
  ExpectRefused(kInvalid, "expected 5 chunks, found 4");
}

TEST_F(ApplyRoundTest, UnknownNamesAreRefused) {
  Reduce();
  spec_.set_reduction("median");
  ExpectRefused(absl::StatusCode::kNotFound, "median");
  spec_.set_reduction("majority");
  spec_.set_update_rule("leap");
  ExpectRefused(absl::StatusCode::kNotFound, "leap");
}

// A dense chunk of 4 elements has the length of a vote's with a lane mask.
TEST_F(ApplyRoundTest, ARuleRefusesAnotherReductionsAggregates) {
  Reduce();
  spec_.set_update_rule("assign");
  ExpectRefused(kInvalid, "assign takes no aggregates of majority");
  spec_.set_reduction("dense_mean");
  Reduce();
  spec_.set_update_rule("sign_step");
  ExpectRefused(kInvalid, "sign_step takes no aggregates of dense_mean");
}

TEST_F(ApplyRoundTest, WrongSizesAreRefused) {
  Reduce();
  parameters_.push_back(1);
  ExpectRefused(kInvalid, "expected 210 parameters, found 211");
  parameters_.pop_back();
  UseLion();
  Reduce();
  state_[0].pop_back();
  ExpectRefused(kInvalid, "expected state arrays of 210 elements, found 209");
  state_.clear();
  ExpectRefused(kInvalid, "expected 1 or more state arrays, found 0");
}

TEST_F(ApplyRoundTest, WrongNumbersInTheSpecAreRefused) {
  Reduce();
  spec_.set_learning_rate(std::numeric_limits<double>::quiet_NaN());
  ExpectRefused(kInvalid, "learning_rate");
  spec_.set_learning_rate(4);
  ExpectRefused(kInvalid, "learning_rate * weight_decay");
  spec_.set_chunk_elements(63);
  ExpectRefused(kInvalid, "chunk_elements");
  spec_.set_chunk_elements(64);
  spec_.set_first_active_block(2);
  ExpectRefused(kInvalid, "first_active_block");
}

}  // namespace
}  // namespace tally
