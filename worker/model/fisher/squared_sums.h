// Sums over examples of squared gradients, added in place. The order of additions is a function of
// the extents alone. An example's gradients are held for a few examples at a time (kTile elements).
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace tally {

// Elements of examples' gradients held at once: 1 MiB of float32, so that what a product wrote is
// still in the core's own cache when it is squared.
inline constexpr int64_t kTile = 1 << 18;

// How many examples of `elements` elements each make a tile, at least one.
int64_t ExamplesPerTile(int64_t elements);

// sums += sum_i v[i]^2. `v`: [n, shape of sums...].
void AddSquares(const torch::Tensor& v, torch::Tensor sums);

// sums[r, c] += sum_i (sum_t a[i, r, t] * b[i, c, t])^2. `a`: [n, rows, t], `b`: [n, columns, t],
// `sums`: [rows, columns].
void AddSquaredProducts(const torch::Tensor& a, const torch::Tensor& b, torch::Tensor sums);

}  // namespace tally
