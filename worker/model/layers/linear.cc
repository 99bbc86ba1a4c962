#include "worker/model/layers/layers.h"
#include "worker/model/layers/recorded.h"

namespace tally {
namespace {

// [n, ..., width] as [n, width, places].
torch::Tensor ByPlaces(const torch::Tensor& x) {
  return x.reshape({x.size(0), -1, x.size(-1)}).transpose(1, 2);
}

void AddLinear(const AffineSums& sums, const torch::Tensor& x, const torch::Tensor& gradient) {
  const torch::Tensor g = ByPlaces(gradient);
  if (sums.weight.defined()) AddSquaredProducts(g, ByPlaces(x), sums.weight);
  if (sums.bias.defined()) AddSquares(g.sum(2), sums.bias);
}

}  // namespace

torch::Tensor Linear::operator()(const torch::Tensor& x) {
  const auto& layer = **this;
  GradientRecorder* recorder = GradientRecorder::Current();
  if (recorder == nullptr) return torch::nn::Linear::operator()(x);
  const torch::Tensor y =
      torch::nn::functional::linear(x, Detached(layer.weight), Detached(layer.bias));
  const AffineSums sums = TakeBoth(*recorder, layer.weight, layer.bias);
  if (!sums.any()) return y;
  return recorder->Record(
      y, [sums, x = x.detach()](const torch::Tensor& g) { AddLinear(sums, x, g); });
}

}  // namespace tally
