#include "worker/model/fisher/squared_sums.h"

#include <algorithm>

namespace tally {

int64_t ExamplesPerTile(int64_t elements) {
  return std::max<int64_t>(1, kTile / std::max<int64_t>(1, elements));
}

void AddSquares(const torch::Tensor& v, torch::Tensor sums) {
  if (v.size(0) == 1) {
    sums.addcmul_(v[0], v[0]);
  } else {
    sums.add_(v.square().sum(0));
  }
}

namespace {

// The same, where nobody needs the values any more.
void AddSquaresOf(torch::Tensor product, torch::Tensor sums) {
  if (product.size(0) == 1) {
    sums.addcmul_(product[0], product[0]);
  } else {
    sums.add_(product.square_().sum(0));
  }
}

}  // namespace

void AddSquaredProducts(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor sums) {
  // (a b)^2 = a^2 b^2: without a sum inside the square no example's gradient need be formed.
  if (a.size(2) == 1) {
    sums.addmm_(a.select(2, 0).square().t(), b.select(2, 0).square());
    return;
  }
  const int64_t columns = sums.size(1);
  const int64_t rows = std::min(sums.size(0), ExamplesPerTile(columns));
  const int64_t examples = ExamplesPerTile(rows * columns);
  for (int64_t row = 0; row < sums.size(0); row += rows) {
    const torch::Tensor sums_tile = sums.slice(0, row, row + rows);
    const torch::Tensor a_rows = a.slice(1, row, row + rows);
    for (int64_t i = 0; i < a.size(0); i += examples) {
      const torch::Tensor b_tile = b.slice(0, i, i + examples).transpose(1, 2);
      AddSquaresOf(torch::bmm(a_rows.slice(0, i, i + examples), b_tile), sums_tile);
    }
  }
}

}  // namespace tally
