#include <vector>

#include "worker/model/layers/layers.h"
#include "worker/model/layers/recorded.h"

namespace tally {
namespace {

struct Shape {
  std::vector<int64_t> kernel, stride, padding, dilation;  // rows, columns
  int64_t groups = 1;
};

// `count` steps of the stride along `dim`, from where element `k` of the kernel begins.
torch::Tensor Under(const Shape& shape, const torch::Tensor& padded, int64_t dim, int64_t k,
                    int64_t count) {
  const auto axis = static_cast<size_t>(dim - 2);
  const int64_t first = k * shape.dilation[axis];
  const int64_t stride = shape.stride[axis];
  return padded.slice(dim, first, first + (count - 1) * stride + 1, stride);
}

// What each column of the kernel lies on, for all rows: [n, channels * kernel columns, padded rows,
// output columns]. From here a step down the kernel's rows is a step in memory, so that the input
// is copied once for each of the kernel's columns and not for each of its elements.
torch::Tensor ByKernelColumn(const Shape& shape, const torch::Tensor& x, int64_t columns) {
  const int64_t rows_beside = shape.padding[0];
  const int64_t columns_beside = shape.padding[1];
  const torch::Tensor padded = torch::constant_pad_nd(
      x, {columns_beside, columns_beside, rows_beside, rows_beside});
  std::vector<torch::Tensor> copies;
  for (int64_t k = 0; k < shape.kernel[1]; ++k) {
    copies.push_back(Under(shape, padded, 3, k, columns));
  }
  return torch::stack(copies, 2).flatten(1, 2);
}

// With the places under one row of the kernel a convolution is a linear layer over places.
// `places`: [n, channels * kernel columns, t], `gradient`: [n, outputs, t], `sums`: [outputs,
// channels of a group * kernel columns].
void AddKernelRow(const Shape& shape, const torch::Tensor& places, const torch::Tensor& gradient,
                  const torch::Tensor& sums) {
  const int64_t outputs = sums.size(0) / shape.groups;
  const int64_t inputs = sums.size(1);
  for (int64_t group = 0; group < shape.groups; ++group) {
    AddSquaredProducts(gradient.narrow(1, group * outputs, outputs),
                       places.narrow(1, group * inputs, inputs),
                       sums.narrow(0, group * outputs, outputs));
  }
}

// `sums`: [kernel rows, outputs, channels of a group * kernel columns].
void AddWeight(const Shape& shape, const torch::Tensor& x, const torch::Tensor& gradient,
               const torch::Tensor& sums) {
  const torch::Tensor by_column = ByKernelColumn(shape, x, gradient.size(3));
  const torch::Tensor g = gradient.flatten(2);
  for (int64_t k = 0; k < shape.kernel[0]; ++k) {
    const torch::Tensor places = Under(shape, by_column, 2, k, gradient.size(2)).flatten(2);
    AddKernelRow(shape, places, g, sums[k]);
  }
}

// A few examples at a time, since what lies under the kernel is some times the input.
void AddConv2d(const Shape& shape, const AffineSums& sums, const torch::Tensor& x,
               const torch::Tensor& gradient) {
  if (sums.bias.defined()) AddSquares(gradient.sum({2, 3}), sums.bias);
  if (!sums.weight.defined()) return;
  const torch::Tensor by_row = sums.weight.permute({2, 0, 1, 3});
  const torch::Tensor added = torch::zeros(by_row.sizes());
  const int64_t step = ExamplesPerTile(x[0].numel() * shape.kernel[1]);
  for (int64_t i = 0; i < x.size(0); i += step) {
    AddWeight(shape, x.slice(0, i, i + step), gradient.slice(0, i, i + step), added.flatten(2));
  }
  by_row.add_(added);
}

template <typename Extents>
std::vector<int64_t> ToVector(const Extents& extents) {
  return {extents->begin(), extents->end()};
}

}  // namespace

torch::Tensor Conv2d::operator()(const torch::Tensor& x) {
  const auto& layer = **this;
  GradientRecorder* recorder = GradientRecorder::Current();
  // get_if is c10's or, in newer versions, std's.
  const auto* padding = get_if<torch::ExpandingArray<2>>(&layer.options.padding());
  const bool zeros = get_if<torch::enumtype::kZeros>(&layer.options.padding_mode()) != nullptr;
  if (recorder == nullptr || padding == nullptr || !zeros || x.dim() != 4) {
    return torch::nn::Conv2d::operator()(x);
  }
  const auto& options = layer.options;
  const Shape shape = {ToVector(options.kernel_size()), ToVector(options.stride()),
                       ToVector(*padding), ToVector(options.dilation()), options.groups()};
  const torch::Tensor y =
      torch::conv2d(x, Detached(layer.weight), Detached(layer.bias), shape.stride, shape.padding,
                    shape.dilation, shape.groups);
  const AffineSums sums = TakeBoth(*recorder, layer.weight, layer.bias);
  if (!sums.any()) return y;
  return recorder->Record(y, [shape, sums, x = x.detach()](const torch::Tensor& g) {
    AddConv2d(shape, sums, x, g);
  });
}

}  // namespace tally
