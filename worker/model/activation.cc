#include "worker/model/activation.h"

namespace tally {

Activation ReadActivation(ModelConfig& config, const std::string& fallback) {
  const std::string name = config.OneOf("hidden_act", {"relu", "gelu", "tanh"}, fallback);
  if (name == "gelu") return Activation::kGelu;
  if (name == "tanh") return Activation::kTanh;
  return Activation::kRelu;
}

torch::Tensor Activate(Activation activation, const torch::Tensor& x) {
  switch (activation) {
    case Activation::kGelu:
      return torch::gelu(x);
    case Activation::kTanh:
      return torch::tanh(x);
    case Activation::kRelu:
      break;
  }
  return torch::relu(x);
}

}  // namespace tally
