#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tally {

// A module whose parts are placed by the dotted names of a checkpoint, without a class for each
// level: tree.Add("layers.0.1.fn", torch::nn::Linear(4, 4)) makes layers.0.1.fn.weight.
class ModuleTree {
 public:
  ModuleTree() : root_(std::make_shared<torch::nn::Module>("model")) {}

  // Returns `part`. The name must be new.
  template <typename Holder>
  Holder Add(absl::string_view name, Holder part) {
    const auto [parent, last] = ParentOf(name);
    parent->register_module(last, part.ptr());
    return part;
  }
  torch::Tensor AddParameter(absl::string_view name, torch::Tensor value);

  torch::nn::Module& root() { return *root_; }

 private:
  // The module above `name`, made as far as it is missing, and the name's last part.
  std::pair<std::shared_ptr<torch::nn::Module>, std::string> ParentOf(absl::string_view name);

  std::shared_ptr<torch::nn::Module> root_;
};

}  // namespace tally
