#pragma once

#include <torch/torch.h>

#include <string>

#include "worker/model/config_reader.h"

namespace tally {

enum class Activation { kRelu, kGelu, kTanh };

// hidden_act: relu, gelu or tanh.
Activation ReadActivation(ModelConfig& config, const std::string& fallback);

torch::Tensor Activate(Activation activation, const torch::Tensor& x);

}  // namespace tally
