#include <tuple>
#include <vector>

#include "worker/model/layers/layers.h"
#include "worker/model/layers/recorded.h"

namespace tally {
namespace {

// What an example adds to a row is summed over all places that hold the row's index, then squared.
// So places are brought together by (example, index). `indices`: [n, ...]; `gradient` has one more
// extent, the width.
void AddEmbedding(const torch::Tensor& sums, const torch::Tensor& indices,
                  const torch::Tensor& gradient) {
  const int64_t rows = sums.size(0);
  const torch::Tensor by_example = indices.reshape({indices.size(0), -1});
  const torch::Tensor example = torch::arange(by_example.size(0), torch::kInt64).unsqueeze(1);
  const auto [pairs, pair_of_place, counts] = torch::_unique2(
      (by_example + example * rows).flatten(), /*sorted=*/true, /*return_inverse=*/true,
      /*return_counts=*/false);
  torch::Tensor summed = torch::zeros({pairs.size(0), sums.size(1)});
  summed.index_add_(0, pair_of_place, gradient.reshape({-1, sums.size(1)}));
  torch::Tensor(sums).index_add_(0, pairs.remainder(rows), summed.square_());
}

}  // namespace

torch::Tensor Embedding::operator()(const torch::Tensor& x) {
  const auto& layer = **this;
  GradientRecorder* recorder = GradientRecorder::Current();
  // These change the weights in forward, or the gradient by what else is in the batch.
  const bool plain = !layer.options.max_norm().has_value() && !layer.options.scale_grad_by_freq();
  if (recorder == nullptr || !plain) return torch::nn::Embedding::operator()(x);
  const torch::Tensor y = torch::embedding(layer.weight.detach(), x);
  const torch::Tensor sums = recorder->Take(layer.weight);
  if (!sums.defined()) return y;
  const auto padding = layer.options.padding_idx();
  return recorder->Record(y, [sums, x, padding](const torch::Tensor& g) {
    // The padding's row is never trained.
    AddEmbedding(sums, x, padding.has_value() ? g * x.ne(*padding).unsqueeze(-1) : g);
  });
}

torch::Tensor ForExamples(const torch::Tensor& parameter, int64_t n) {
  std::vector<int64_t> shape = parameter.sizes().vec();
  shape[0] = n;
  GradientRecorder* recorder = GradientRecorder::Current();
  if (recorder == nullptr) return parameter.expand(shape);
  const torch::Tensor rows = parameter.detach().expand(shape);
  const torch::Tensor sums = recorder->Take(parameter);
  if (!sums.defined()) return rows;
  return recorder->Record(rows, [sums](const torch::Tensor& g) {
    AddSquares(g.unsqueeze(1), sums);
  });
}

}  // namespace tally
