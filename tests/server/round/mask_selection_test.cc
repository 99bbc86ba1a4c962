#include "server/round/mask_selection.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/status_matchers.h"
#include "common/reduction/index_set/index_set.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

// Three blocks, of which the last is the head; several chunks each.
ChunkGrid TestGrid() {
  LayoutBuilder builder;
  builder.AddBlock("embeddings").AddTensor("e", {300});
  builder.AddBlock("layer").AddTensor("l", {500});
  builder.AddBlock("head").AddTensor("h", {100});
  return ChunkGrid(*builder.Build(), 0, 3, 64);
}

std::vector<uint64_t> Decode(const ChunkGrid& grid, const std::vector<Bytes>& sets) {
  std::vector<uint64_t> all;
  for (uint32_t i = 0; i < grid.size(); ++i) {
    const auto set = DecodeIndexSet(grid[i].count, sets[i]);
    EXPECT_TRUE(set.ok());
    for (const uint32_t index : set->indices) all.push_back(grid[i].first + index);
  }
  return all;
}

// Of a plain sort over all tensors together, the head apart.
std::vector<uint64_t> Reference(const std::vector<float>& scores, uint64_t size) {
  std::vector<uint64_t> order(800);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t a, uint64_t b) { return scores[a] > scores[b]; });
  order.resize(size - 100);
  for (uint64_t i = 800; i < 900; ++i) order.push_back(i);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SelectMask, TakesTheHeadAndTheBestOfTheRest) {
  const ChunkGrid grid = TestGrid();
  std::mt19937_64 random(1);
  std::vector<float> scores(900);
  for (float& score : scores) score = static_cast<float>(random() % 50);  // ties
  for (const uint64_t size : {100, 101, 150, 500, 899, 900}) {
    const std::vector<uint64_t> found = Decode(grid, SelectMask(grid, scores, size));
    EXPECT_EQ(found.size(), size);
    EXPECT_EQ(found, Reference(scores, size));
  }
}

TEST(SelectMask, ABlockWithHigherScoresGetsMoreOfThem) {
  const ChunkGrid grid = TestGrid();
  std::vector<float> scores(900, 1.0f);
  std::fill_n(scores.begin() + 300, 500, 2.0f);
  const std::vector<uint64_t> found = Decode(grid, SelectMask(grid, scores, 200));
  for (const uint64_t index : found) EXPECT_GE(index, 300u);
}

TEST(RandomScores, AreTheKeysAloneAndSpreadEvenly) {
  const ChunkGrid grid = TestGrid();
  EXPECT_EQ(RandomScores(900, 5), RandomScores(900, 5));
  EXPECT_NE(RandomScores(900, 5), RandomScores(900, 6));
  std::vector<int> taken(800);
  for (uint64_t key = 0; key < 400; ++key) {
    for (const uint64_t index : Decode(grid, SelectMask(grid, RandomScores(900, key), 180))) {
      if (index < 800) ++taken[index];
    }
  }
  // Binomial with n = 400, p = 0.1: 40, deviation 6.
  EXPECT_GT(*std::min_element(taken.begin(), taken.end()), 40 - 5 * 6);
  EXPECT_LT(*std::max_element(taken.begin(), taken.end()), 40 + 5 * 6);
}

}  // namespace
}  // namespace tally
