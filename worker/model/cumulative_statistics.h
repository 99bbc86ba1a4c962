#pragma once

#include <torch/torch.h>

#include <utility>
#include <vector>

#include "worker/model/evaluation_mode.h"

namespace tally {

// For a while BatchNorm layers alone are in training mode and take each batch into their running
// statistics with the weight 1 / (before + 1): after n batches the plain mean, the first one replacing
// what was there. Then modes and momenta are as they were.
class CumulativeStatistics {
 public:
  CumulativeStatistics(torch::nn::Module& module, uint32_t before) : mode_(module) {
    for (const auto& part : module.modules(/*include_self=*/false)) {
      auto* layer = dynamic_cast<torch::nn::BatchNorm2dImpl*>(part.get());
      if (layer == nullptr) continue;
      layers_.emplace_back(layer, layer->options.momentum());
      layer->options.momentum(1.0 / (before + 1.0));
      layer->train();
    }
  }
  ~CumulativeStatistics() {
    for (const auto& [layer, momentum] : layers_) layer->options.momentum(momentum);
  }
  CumulativeStatistics(const CumulativeStatistics&) = delete;
  CumulativeStatistics& operator=(const CumulativeStatistics&) = delete;

 private:
  const EvaluationMode mode_;
  std::vector<std::pair<torch::nn::BatchNorm2dImpl*, c10::optional<double>>> layers_;
};

}  // namespace tally
