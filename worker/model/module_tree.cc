#include "worker/model/module_tree.h"

#include <vector>

#include "absl/strings/str_split.h"

namespace tally {
namespace {

using ModulePtr = std::shared_ptr<torch::nn::Module>;

ModulePtr ChildOrNew(const ModulePtr& parent, const std::string& name) {
  const auto children = parent->named_children();
  if (const ModulePtr* child = children.find(name)) return *child;
  return parent->register_module(name, std::make_shared<torch::nn::Module>(name));
}

}  // namespace

std::pair<ModulePtr, std::string> ModuleTree::ParentOf(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  ModulePtr parent = root_;
  for (size_t i = 0; i + 1 < parts.size(); ++i) parent = ChildOrNew(parent, parts[i]);
  return {parent, parts.back()};
}

torch::Tensor ModuleTree::AddParameter(absl::string_view name, torch::Tensor value) {
  const auto [parent, last] = ParentOf(name);
  return parent->register_parameter(last, std::move(value));
}

}  // namespace tally
