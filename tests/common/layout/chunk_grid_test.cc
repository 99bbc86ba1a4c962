#include "common/layout/chunk_grid.h"

#include <cstring>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Blocks of 130, 64, 1 and, of buffers, 70 elements.
Layout SmallLayout() {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.0", {100}).AddTensor("a.1", {30});
  builder.AddBlock("b").AddTensor("b.0", {8, 8});
  builder.AddBlock("c").AddTensor("c.0", {});
  builder.AddBuffersBlock("buffers").AddTensor("mean", {70});
  return *builder.Build();
}

v1::RoundSpec Spec(uint32_t first_active_block, uint32_t chunk_elements, bool buffers = false) {
  v1::RoundSpec spec;
  spec.set_round(7);
  spec.set_first_active_block(first_active_block);
  spec.set_chunk_elements(chunk_elements);
  spec.set_buffers(buffers);
  return spec;
}

// Chunks follow one another from `first` to `end`, none empty, none across a block's bound.
void ExpectCovers(const Layout& layout, const ChunkGrid& grid, uint64_t first, uint64_t end,
                  uint32_t chunk_elements) {
  uint64_t next = first;
  uint64_t lane = 0;
  for (const Chunk& chunk : grid.chunks()) {
    EXPECT_EQ(chunk.first, next);
    EXPECT_GT(chunk.count, 0u);
    EXPECT_LE(chunk.count, chunk_elements);
    EXPECT_EQ(chunk.first_lane, lane);
    const LayoutBlock& block = layout.blocks()[chunk.block];
    EXPECT_GE(chunk.first, block.first);
    EXPECT_LE(chunk.first + chunk.count, block.first + block.count);
    next += chunk.count;
    lane += (chunk.count + 63) / 64;
  }
  EXPECT_EQ(next, end);
  EXPECT_EQ(grid.elements(), end - first);
}

TEST(ChunkGridTest, CoversItsBlocksExactly) {
  const Layout layout = SmallLayout();
  for (const uint32_t chunk_elements : {64u, 128u, 192u, 1u << 20}) {
    for (uint32_t first = 0; first < 4; ++first) {
      for (uint32_t end = first + 1; end <= 4; ++end) {
        const ChunkGrid grid(layout, first, end, chunk_elements);
        const LayoutBlock& last = layout.blocks()[end - 1];
        ExpectCovers(layout, grid, layout.blocks()[first].first, last.first + last.count,
                     chunk_elements);
      }
    }
  }
}

TEST(ChunkGridTest, BoundsOfSmallChunks) {
  const ChunkGrid grid(SmallLayout(), 0, 3, 64);
  ASSERT_EQ(grid.size(), 5u);
  const std::vector<std::pair<uint64_t, uint32_t>> bounds = {
      {0, 64}, {64, 64}, {128, 2}, {130, 64}, {194, 1}};
  for (uint32_t i = 0; i < grid.size(); ++i) {
    EXPECT_EQ(std::make_pair(grid[i].first, grid[i].count), bounds[i]) << i;
  }
}

TEST(ChunkGridTest, FreezingABlockMovesNoOtherBounds) {
  const Layout layout = SmallLayout();
  const ChunkGrid all(layout, 0, 3, 64);
  const ChunkGrid active(layout, 1, 3, 64);
  ASSERT_EQ(active.size(), 2u);
  for (uint32_t i = 0; i < active.size(); ++i) {
    EXPECT_EQ(active[i].first, all[i + 3].first);
    EXPECT_EQ(active[i].count, all[i + 3].count);
    EXPECT_EQ(active[i].block, all[i + 3].block);
  }
}

TEST(ChunkGridTest, BlockRange) {
  const ChunkGrid grid(SmallLayout(), 1, 3, 64);
  using Range = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(grid.BlockRange(0), Range(0, 0));
  EXPECT_EQ(grid.BlockRange(1), Range(0, 1));
  EXPECT_EQ(grid.BlockRange(2), Range(1, 2));
  EXPECT_EQ(grid.BlockRange(3), Range(0, 0));
  EXPECT_EQ(grid.BlockRange(0xFFFFFFFF), Range(0, 0));
  EXPECT_EQ(ChunkGrid(SmallLayout(), 0, 4, 64).BlockRange(0), Range(0, 3));
}

TEST(ChunkGridTest, EmptyGrid) {
  const ChunkGrid grid;
  EXPECT_EQ(grid.size(), 0u);
  EXPECT_EQ(grid.elements(), 0u);
  EXPECT_EQ(grid.BlockRange(0), (std::pair<uint32_t, uint32_t>(0, 0)));
}

TEST(GridForRoundTest, TrainingRoundLeavesBuffersOut) {
  const Layout layout = SmallLayout();
  TALLY_ASSERT_OK_AND_ASSIGN(const ChunkGrid grid, GridForRound(layout, Spec(0, 64)));
  ExpectCovers(layout, grid, 0, layout.trained_size(), 64);
}

TEST(GridForRoundTest, FirstActiveBlock) {
  const Layout layout = SmallLayout();
  TALLY_ASSERT_OK_AND_ASSIGN(const ChunkGrid grid, GridForRound(layout, Spec(2, 64)));
  ASSERT_EQ(grid.size(), 1u);
  EXPECT_EQ(grid[0].first, 194u);
}

TEST(GridForRoundTest, BuffersRoundIsOverTheBuffersAlone) {
  const Layout layout = SmallLayout();
  TALLY_ASSERT_OK_AND_ASSIGN(const ChunkGrid grid, GridForRound(layout, Spec(2, 64, true)));
  ExpectCovers(layout, grid, layout.trained_size(), layout.size(), 64);
}

TEST(GridForRoundTest, NoActiveBlockIsRefused) {
  EXPECT_THAT(GridForRound(SmallLayout(), Spec(3, 64)),
              StatusIs(kInvalid, HasSubstr("round 7: first_active_block: expected less than 3")));
}

TEST(GridForRoundTest, ChunkElementsOfNoWholeLanesAreRefused) {
  for (const uint32_t elements : {0u, 1u, 63u, 65u, 0xFFFFFFFFu}) {
    EXPECT_THAT(GridForRound(SmallLayout(), Spec(0, elements)),
                StatusIs(kInvalid, HasSubstr("chunk_elements")));
  }
}

TEST(GridForRoundTest, BuffersRoundOfAModelWithoutBuffersIsRefused) {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("x", {5});
  EXPECT_THAT(GridForRound(*builder.Build(), Spec(0, 64, true)),
              StatusIs(kInvalid, HasSubstr("buffers")));
}

TEST(DenseGridTest, CoversAllBlocksInChunksOfOneMebibyte) {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("x", {300000});
  builder.AddBuffersBlock("buffers").AddTensor("mean", {10});
  const Layout layout = *builder.Build();
  const ChunkGrid grid = DenseGrid(layout);
  ExpectCovers(layout, grid, 0, layout.size(), 262144);
  EXPECT_EQ(grid.size(), 3u);
}

class ParametersDigestTest : public ::testing::Test {
 protected:
  ParametersDigestTest() : layout_(SmallLayout()), parameters_(layout_.size()) {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = 0.25f * static_cast<float>(i);
  }
  uint64_t Digest() const { return ParametersDigest(layout_, parameters_); }

  Layout layout_;
  std::vector<float> parameters_;
};

TEST_F(ParametersDigestTest, IsTheDigestOfTheChunksDigests) {
  Digester expected;
  for (const LayoutBlock& block : layout_.blocks()) {
    expected.AddUint64(Digest64(&parameters_[block.first], block.count * sizeof(float)));
  }
  EXPECT_EQ(Digest(), expected.Finish());
}

TEST_F(ParametersDigestTest, ChangesWithAnyElement) {
  const uint64_t before = Digest();
  for (float& x : parameters_) {
    const float kept = x;
    x += 1;
    EXPECT_NE(Digest(), before);
    x = kept;
  }
  EXPECT_EQ(Digest(), before);
}

TEST_F(ParametersDigestTest, TellsZerosApart) {
  parameters_[5] = 0.0f;
  const uint64_t before = Digest();
  parameters_[5] = -0.0f;
  EXPECT_NE(Digest(), before);
}

TEST_F(ParametersDigestTest, EveryBlockHasItsOwn) {
  const std::vector<uint64_t> before = BlockDigests(layout_, parameters_);
  ASSERT_EQ(before.size(), layout_.blocks().size());
  for (uint32_t changed = 0; changed < before.size(); ++changed) {
    parameters_[layout_.blocks()[changed].first] += 1;
    const std::vector<uint64_t> after = BlockDigests(layout_, parameters_);
    for (uint32_t block = 0; block < before.size(); ++block) {
      EXPECT_EQ(after[block] != before[block], block == changed);
    }
    parameters_[layout_.blocks()[changed].first] -= 1;
  }
}

// A block of 262,144 elements and one more has two chunks on the dense grid.
TEST_F(ParametersDigestTest, ABlocksDigestIsThatOfItsChunksDigests) {
  LayoutBuilder builder;
  builder.AddBlock("small").AddTensor("a", {3});
  builder.AddBlock("large").AddTensor("b", {262'145});
  const Layout layout = *builder.Build();
  const std::vector<float> parameters(layout.size(), 0.5f);
  Digester small, large;
  small.AddUint64(Digest64(parameters.data(), 3 * sizeof(float)));
  large.AddUint64(Digest64(parameters.data(), 262'144 * sizeof(float)));
  large.AddUint64(Digest64(parameters.data(), sizeof(float)));
  EXPECT_EQ(BlockDigests(layout, parameters),
            (std::vector<uint64_t>{small.Finish(), large.Finish()}));
}

}  // namespace
}  // namespace tally
