// LibTorch's layers for architectures, under the same names: they also record the squared gradients
// of each example (worker/model/fisher/gradient_recorder.h). Any other layer works as well, but
// then squared gradients are computed one example at a time. The first extent of inputs and outputs
// is the examples'; outputs must not be changed in place.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace tally {

// x: [n, ..., inputs], with the same weights at all places between.
class Linear : public torch::nn::Linear {
 public:
  using torch::nn::Linear::Linear;
  torch::Tensor operator()(const torch::Tensor& x);
};

// x: [n, channels, rows, columns]. Padding by zeros, as numbers, is recorded; another kind is not.
class Conv2d : public torch::nn::Conv2d {
 public:
  using torch::nn::Conv2d::Conv2d;
  torch::Tensor operator()(const torch::Tensor& x);
};

// x: [n, channels, rows, columns]. Recorded in evaluation mode with running statistics, where no
// example's output depends on the others.
class BatchNorm2d : public torch::nn::BatchNorm2d {
 public:
  using torch::nn::BatchNorm2d::BatchNorm2d;
  torch::Tensor operator()(const torch::Tensor& x);
};

// x: [n, ..., normalized_shape...].
class LayerNorm : public torch::nn::LayerNorm {
 public:
  using torch::nn::LayerNorm::LayerNorm;
  torch::Tensor operator()(const torch::Tensor& x);
};

// x: integers [n, ...]. Not recorded with max_norm or scale_grad_by_freq.
class Embedding : public torch::nn::Embedding {
 public:
  using torch::nn::Embedding::Embedding;
  torch::Tensor operator()(const torch::Tensor& x);
};

// A parameter [1, ...] that stands in no layer (a token, positions), as the [n, ...] that n
// examples share.
torch::Tensor ForExamples(const torch::Tensor& parameter, int64_t n);

}  // namespace tally
