// The mask as the fold carries it: made by a mask round, and all that a sparse round touches.
#include "common/update/mask.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/update/apply_round.h"
#include "common/update/round_context.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Blocks of 130 and 70 elements; chunks of 64: 3 + 2.
class MaskTest : public ::testing::Test {
 protected:
  MaskTest() {
    LayoutBuilder builder;
    builder.AddBlock("a").AddTensor("a.weight", {13, 10});
    builder.AddBlock("b").AddTensor("b.weight", {70});
    layout_ = *builder.Build();
    mask_spec_.set_round(3);
    mask_spec_.set_reduction("dense_mean");
    mask_spec_.set_update_rule("set_mask");
    mask_spec_.set_chunk_elements(64);
    mask_spec_.set_mask_size(6);
    sets_ = {{64, {0, 63}}, {64, {}}, {2, {0, 1}}, {64, {5}}, {6, {5}}};
    sparse_ = mask_spec_;
    sparse_.set_round(4);
    sparse_.set_reduction("sparse_mean");
    sparse_.set_update_rule("sparse_add");
    sparse_.set_mask_size(0);
    sparse_.set_mask_round(3);
    sparse_.set_learning_rate(1);
    for (size_t i = 0; i < layout_.size(); ++i) x_.push_back(0.1f * static_cast<float>(i) - 3.0f);
  }

  absl::Status ApplyMaskRound() {
    std::vector<Bytes> payloads;
    for (const IndexSet& set : sets_) payloads.push_back(EncodeIndexSet(set));
    return Apply(mask_spec_, payloads);
  }
  // A sparse round whose deltas are 1, 2, ... in the order of the mask's elements.
  absl::Status ApplySparse() {
    std::vector<Bytes> payloads;
    float next = 1;
    const ChunkGrid grid = *GridForRound(layout_, sparse_);
    for (uint32_t i = 0; i < grid.size(); ++i) {
      std::vector<float> values;
      for (size_t j = 0; j < sets_[i].indices.size(); ++j) values.push_back(next++);
      payloads.push_back(WriteSparse(*AggregateContext(sparse_, grid[i], &sets_[i]), {}, values));
    }
    return Apply(sparse_, payloads);
  }
  absl::Status Apply(const v1::RoundSpec& spec, const std::vector<Bytes>& payloads) {
    const std::vector<ByteSpan> spans(payloads.begin(), payloads.end());
    return ApplyRound(layout_, spec, spans, absl::MakeSpan(x_), {}, &mask_);
  }

  Layout layout_;
  v1::RoundSpec mask_spec_, sparse_;
  std::vector<IndexSet> sets_;
  std::vector<float> x_;
  MaskPointer mask_;
};

TEST_F(MaskTest, AMaskRoundSetsItAndMovesNothing) {
  const std::vector<float> before = x_;
  TALLY_ASSERT_OK(ApplyMaskRound());
  EXPECT_EQ(x_, before);
  ASSERT_NE(mask_, nullptr);
  EXPECT_EQ(mask_->round(), 3u);
  EXPECT_THAT(mask_->FlatIndices(), ElementsAre(0, 63, 128, 129, 135, 199));
}

TEST_F(MaskTest, ASparseRoundMovesItsElementsAndNoOtherBit) {
  const std::vector<float> before = x_;
  TALLY_ASSERT_OK(ApplyMaskRound());
  sparse_.set_learning_rate(0.5);
  TALLY_ASSERT_OK(ApplySparse());
  std::vector<float> expected = before;
  float delta = 1;
  for (const size_t index : {0, 63, 128, 129, 135, 199}) {
    expected[index] = std::fma(0.5f, delta++, expected[index]);
  }
  EXPECT_EQ(std::memcmp(x_.data(), expected.data(), x_.size() * sizeof(float)), 0);
}

// Chunks that a pass takes in several parts, against element by element.
TEST_F(MaskTest, APassInPartsIsTheSame) {
  LayoutBuilder builder;
  builder.AddBlock("large").AddTensor("w", {100'000});
  layout_ = *builder.Build();
  mask_spec_.set_chunk_elements(1 << 20);
  sparse_.set_chunk_elements(1 << 20);
  sets_ = {{100'000, {}}};
  for (uint32_t i = 7; i < 100'000; i += 13) sets_[0].indices.push_back(i);
  mask_spec_.set_mask_size(sets_[0].indices.size());
  x_.assign(100'000, 0.25f);
  TALLY_ASSERT_OK(ApplyMaskRound());
  TALLY_ASSERT_OK(ApplySparse());
  float next = 1;
  for (uint32_t i = 0; i < 100'000; ++i) {
    const bool in = i >= 7 && (i - 7) % 13 == 0;
    ASSERT_EQ(x_[i], in ? 0.25f + next : 0.25f) << i;
    if (in) ++next;
  }
}

TEST_F(MaskTest, ComesBackFromItsBytes) {
  TALLY_ASSERT_OK(ApplyMaskRound());
  TALLY_ASSERT_OK_AND_ASSIGN(const MaskPointer found, Mask::Parse(layout_, mask_->Serialize()));
  EXPECT_EQ(found->FlatIndices(), mask_->FlatIndices());
  EXPECT_EQ(found->Serialize(), mask_->Serialize());
  EXPECT_THAT(Mask::Parse(layout_, "no mask"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mask")));
  std::string cut = mask_->Serialize();
  cut.pop_back();
  EXPECT_THAT(Mask::Parse(layout_, cut), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("mask")));
}

TEST_F(MaskTest, AMaskOfAnotherSizeIsRefusedAndTheOldOneStays) {
  TALLY_ASSERT_OK(ApplyMaskRound());
  const MaskPointer before = mask_;
  sets_[0].indices.pop_back();
  mask_spec_.set_round(9);
  EXPECT_THAT(ApplyMaskRound(),
              StatusIs(kInvalid, HasSubstr("round 9: mask: expected 6 elements, found 5")));
  EXPECT_EQ(mask_, before);
}

TEST_F(MaskTest, ARoundOverAnotherMaskIsRefused) {
  const std::vector<float> before = x_;
  EXPECT_THAT(ApplySparse(), StatusIs(kInvalid, HasSubstr("expected the mask of round 3, found none")));
  TALLY_ASSERT_OK(ApplyMaskRound());
  sparse_.set_mask_round(2);
  EXPECT_THAT(ApplySparse(),
              StatusIs(kInvalid, HasSubstr("expected the mask of round 2, found that of round 3")));
  EXPECT_EQ(x_, before);
}

TEST_F(MaskTest, DecayIsRefused) {
  TALLY_ASSERT_OK(ApplyMaskRound());
  sparse_.set_weight_decay(0.1);
  EXPECT_THAT(ApplySparse(), StatusIs(kInvalid, HasSubstr("weight_decay")));
}

// Each mask round is a pass of its own; sparse rounds under one mask share one.
TEST_F(MaskTest, WhichRoundsShareAPass) {
  v1::RoundSpec later = sparse_;
  later.set_round(5);
  EXPECT_TRUE(SameGrid(sparse_, later));
  later.set_mask_round(4);
  EXPECT_FALSE(SameGrid(sparse_, later));
  EXPECT_FALSE(SameGrid(mask_spec_, sparse_));
  EXPECT_FALSE(SameGrid(mask_spec_, mask_spec_));
}

// With a frozen prefix the grid has fewer chunks; those left keep their part of the mask.
TEST_F(MaskTest, FindsItsPartOfAGridWithFrozenBlocks) {
  TALLY_ASSERT_OK(ApplyMaskRound());
  sparse_.set_first_active_block(1);
  const ChunkGrid grid = *GridForRound(layout_, sparse_);
  ASSERT_NE(mask_->Find(grid[0]), nullptr);
  EXPECT_THAT(mask_->Find(grid[0])->indices, ElementsAre(5));
  sparse_.set_chunk_elements(128);
  EXPECT_EQ(mask_->Find((*GridForRound(layout_, sparse_))[0]), nullptr);
}

}  // namespace
}  // namespace tally
