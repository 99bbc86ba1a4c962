#include "worker/model/batch_tensor.h"

#include <algorithm>
#include <vector>

namespace tally {
namespace {

std::vector<int64_t> BatchShape(const Batch& batch, const InputSpec& input) {
  std::vector<int64_t> shape = {static_cast<int64_t>(batch.size())};
  shape.insert(shape.end(), input.shape.begin(), input.shape.end());
  return shape;
}

// One value a channel, or one for all, in a shape that spreads over [n, channels, ...].
torch::Tensor PerChannel(const std::vector<float>& values, int64_t rank) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[1] = static_cast<int64_t>(values.size());
  return torch::tensor(values, torch::kFloat32).reshape(shape);
}

}  // namespace

torch::Tensor InputTensor(const Batch& batch, const InputSpec& input) {
  const bool bytes = batch.format.type == ElementType::kUint8;
  // from_blob takes a mutable pointer; nothing is written through it.
  auto* data = const_cast<char*>(batch.elements.data());
  torch::Tensor x = torch::from_blob(data, BatchShape(batch, input),
                                     bytes ? torch::kUInt8 : torch::kFloat32);
  if (bytes) x = x.to(torch::kFloat32).div_(255);
  const torch::Tensor mean = PerChannel(input.scaling.mean, x.dim());
  return (x - mean).div_(PerChannel(input.scaling.deviation, x.dim()));
}

torch::Tensor LabelTensor(const Batch& batch) {
  torch::Tensor labels = torch::empty({static_cast<int64_t>(batch.size())}, torch::kInt64);
  std::copy(batch.labels.begin(), batch.labels.end(), labels.data_ptr<int64_t>());
  return labels;
}

}  // namespace tally
