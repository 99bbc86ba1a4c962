#include "worker/model/fisher/squared_sums.h"

#include "gtest/gtest.h"

namespace tally {
namespace {

torch::Tensor Random(torch::IntArrayRef shape) {
  return torch::rand(shape, torch::make_generator<torch::CPUGeneratorImpl>(7)) - 0.5;
}

// All examples' products at once, in float64.
torch::Tensor Reference(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::einsum("irt,ict->irc", {a.to(torch::kFloat64), b.to(torch::kFloat64)})
      .square()
      .sum(0);
}

void ExpectProducts(int64_t n, int64_t rows, int64_t columns, int64_t places) {
  const torch::Tensor a = Random({n, rows, places});
  const torch::Tensor b = Random({n, places, columns}).transpose(1, 2);
  torch::Tensor sums = torch::full({rows, columns}, 0.5);
  AddSquaredProducts(a, b, sums);
  EXPECT_TRUE(torch::allclose(sums.to(torch::kFloat64), Reference(a, b) + 0.5, 1e-5, 1e-6))
      << n << " x " << rows << " x " << columns << " x " << places;
}

TEST(SquaredSums, OnePlace) { ExpectProducts(6, 5, 4, 1); }

TEST(SquaredSums, SeveralPlaces) { ExpectProducts(6, 5, 4, 3); }

TEST(SquaredSums, OneExample) { ExpectProducts(1, 5, 4, 3); }

TEST(SquaredSums, ExamplesInSeveralTiles) {
  const int64_t tile = ExamplesPerTile(64 * 64);
  ASSERT_GT(tile, 1);
  ExpectProducts(2 * tile + 3, 64, 64, 2);
}

TEST(SquaredSums, RowsInSeveralTiles) {
  const int64_t columns = kTile / 2;  // two rows make a tile
  ExpectProducts(2, 5, columns, 2);
}

TEST(SquaredSums, RowsLargerThanATile) { ExpectProducts(2, 2, kTile + 1, 2); }

TEST(SquaredSums, Squares) {
  const torch::Tensor v = Random({9, 3, 2});
  for (const int64_t n : {1, 9}) {
    torch::Tensor sums = torch::full({3, 2}, 2.0);
    AddSquares(v.slice(0, 0, n), sums);
    EXPECT_TRUE(torch::allclose(sums, v.slice(0, 0, n).square().sum(0) + 2));
  }
}

TEST(SquaredSums, ATileHoldsAtLeastOneExample) {
  EXPECT_EQ(ExamplesPerTile(1), kTile);
  EXPECT_EQ(ExamplesPerTile(kTile / 3), 3);
  EXPECT_EQ(ExamplesPerTile(kTile + 1), 1);
}

}  // namespace
}  // namespace tally
