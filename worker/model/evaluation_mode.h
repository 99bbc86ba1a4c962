#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>
#include <vector>

namespace tally {

// A module in evaluation mode for a while; then each part is in the mode that it was in.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) {
    // Parents before their parts, so that the parts' own modes are restored last. The module itself
    // need not be held by a shared pointer, which modules() would want of it.
    root_ = {&module, module.is_training()};
    for (const auto& part : module.modules(/*include_self=*/false)) {
      parts_.emplace_back(part, part->is_training());
    }
    module.eval();
  }
  ~EvaluationMode() {
    root_.first->train(root_.second);
    for (const auto& [part, training] : parts_) part->train(training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::pair<torch::nn::Module*, bool> root_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> parts_;
};

}  // namespace tally
