#include <vector>

#include "worker/model/layers/layers.h"
#include "worker/model/layers/recorded.h"

namespace tally {
namespace {

// Gradients of y = weight * normalised + bias; both [n, channels, ...], summed over what follows.
void AddBatchNorm(const AffineSums& sums, const torch::Tensor& normalised,
                  const torch::Tensor& gradient) {
  const auto add = [](const torch::Tensor& v, const torch::Tensor& to) {
    AddSquares(v.flatten(2).sum(2), to);
  };
  if (sums.weight.defined()) add(gradient * normalised, sums.weight);
  if (sums.bias.defined()) add(gradient, sums.bias);
}

// Likewise for [n, ..., shape...], summed over what lies between.
void AddLayerNorm(const AffineSums& sums, const torch::Tensor& normalised,
                  const torch::Tensor& gradient, const std::vector<int64_t>& shape) {
  std::vector<int64_t> by_places = {gradient.size(0), -1};
  by_places.insert(by_places.end(), shape.begin(), shape.end());
  const auto add = [&](const torch::Tensor& v, const torch::Tensor& to) {
    AddSquares(v.reshape(by_places).sum(1), to);
  };
  if (sums.weight.defined()) add(gradient * normalised, sums.weight);
  if (sums.bias.defined()) add(gradient, sums.bias);
}

}  // namespace

torch::Tensor BatchNorm2d::operator()(const torch::Tensor& x) {
  const auto& layer = **this;
  GradientRecorder* recorder = GradientRecorder::Current();
  if (recorder == nullptr || layer.is_training() || !layer.options.track_running_stats()) {
    return torch::nn::BatchNorm2d::operator()(x);
  }
  const auto normalise = [mean = layer.running_mean, variance = layer.running_var,
                          epsilon = layer.options.eps()](const torch::Tensor& of,
                                                         const torch::Tensor& by,
                                                         const torch::Tensor& plus) {
    return torch::batch_norm(of, by, plus, mean, variance, /*training=*/false, /*momentum=*/0,
                             epsilon, /*cudnn_enabled=*/false);
  };
  const torch::Tensor y = normalise(x, Detached(layer.weight), Detached(layer.bias));
  const AffineSums sums = TakeBoth(*recorder, layer.weight, layer.bias);
  if (!sums.any()) return y;
  return recorder->Record(y, [sums, normalise, x = x.detach()](const torch::Tensor& g) {
    AddBatchNorm(sums, normalise(x, {}, {}), g);
  });
}

torch::Tensor LayerNorm::operator()(const torch::Tensor& x) {
  const auto& layer = **this;
  GradientRecorder* recorder = GradientRecorder::Current();
  if (recorder == nullptr) return torch::nn::LayerNorm::operator()(x);
  const std::vector<int64_t> shape = layer.options.normalized_shape();
  const auto normalise = [shape, epsilon = layer.options.eps()](const torch::Tensor& of,
                                                                const torch::Tensor& by,
                                                                const torch::Tensor& plus) {
    return torch::layer_norm(of, shape, by, plus, epsilon, /*cudnn_enable=*/false);
  };
  const torch::Tensor y = normalise(x, Detached(layer.weight), Detached(layer.bias));
  const AffineSums sums = TakeBoth(*recorder, layer.weight, layer.bias);
  if (!sums.any()) return y;
  return recorder->Record(
      y, [sums, normalise, x = x.detach(), shape](const torch::Tensor& g) {
        AddLayerNorm(sums, normalise(x, {}, {}), g, shape);
      });
}

}  // namespace tally
