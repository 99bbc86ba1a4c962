#include <vector>

#include "worker/model/layers/layers.h"
#include "worker/model/layers/recorded.h"

namespace tally {
namespace {

struct Shape {
  std::vector<int64_t> kernel, stride, padding, dilation;
  int64_t groups = 1;
};

// The patches under the kernel: [n, channels * kernel, places], row by row of the weight's order.
torch::Tensor Patches(const Shape& shape, const torch::Tensor& x) {
  return torch::im2col(x, shape.kernel, shape.dilation, shape.padding, shape.stride);
}

// A convolution is a linear layer on patches. `gradient`: [n, outputs, places].
void AddWeight(const Shape& shape, const torch::Tensor& patches, const torch::Tensor& gradient,
               const torch::Tensor& sums) {
  const torch::Tensor matrix = sums.flatten(1);  // a view: sums are contiguous
  const int64_t outputs = matrix.size(0) / shape.groups;
  const int64_t inputs = matrix.size(1);
  for (int64_t group = 0; group < shape.groups; ++group) {
    AddSquaredProducts(gradient.narrow(1, group * outputs, outputs),
                       patches.narrow(1, group * inputs, inputs),
                       matrix.narrow(0, group * outputs, outputs));
  }
}

// Patches are many times the input, so that they too are made for a few examples at a time.
void AddConv2d(const Shape& shape, const AffineSums& sums, const torch::Tensor& x,
               const torch::Tensor& gradient) {
  const torch::Tensor g = gradient.flatten(2);
  if (sums.bias.defined()) AddSquares(g.sum(2), sums.bias);
  if (!sums.weight.defined()) return;
  const int64_t patch = x.size(1) * shape.kernel[0] * shape.kernel[1];
  const int64_t step = ExamplesPerTile(patch * g.size(2));
  for (int64_t i = 0; i < x.size(0); i += step) {
    AddWeight(shape, Patches(shape, x.slice(0, i, i + step)), g.slice(0, i, i + step),
              sums.weight);
  }
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
