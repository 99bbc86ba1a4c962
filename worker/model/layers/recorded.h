// What the layers' recording has in common.
#pragma once

#include <torch/torch.h>

#include "worker/model/fisher/gradient_recorder.h"
#include "worker/model/fisher/squared_sums.h"

namespace tally {

// Cut off from the parameter, so that backward computes no gradient of it. Undefined stays so.
inline torch::Tensor Detached(const torch::Tensor& parameter) {
  return parameter.defined() ? parameter.detach() : parameter;
}

// Where the squares of a layer's two parameters go; undefined for what is not wanted.
struct AffineSums {
  torch::Tensor weight;
  torch::Tensor bias;

  bool any() const { return weight.defined() || bias.defined(); }
};

inline AffineSums TakeBoth(GradientRecorder& recorder, const torch::Tensor& weight,
                           const torch::Tensor& bias) {
  torch::Tensor weight_sums = recorder.Take(weight);
  return {std::move(weight_sums), recorder.Take(bias)};
}

}  // namespace tally
