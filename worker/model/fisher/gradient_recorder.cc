#include "worker/model/fisher/gradient_recorder.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

// As LibTorch's own modes (NoGradGuard): known to the thread, since layers are called by
// architectures that know nothing of it.
thread_local GradientRecorder* current = nullptr;

// A shared_ptr or, in newer versions, an intrusive_ptr.
using NodePtr = decltype(torch::autograd::Edge::function);

// Calls `visit` with each leaf that the tensor's value was computed from.
void VisitLeaves(const torch::Tensor& tensor,
                 const std::function<void(const torch::Tensor&)>& visit) {
  std::vector<NodePtr> todo;
  std::unordered_set<const torch::autograd::Node*> seen;
  const auto add = [&](const NodePtr& node) {
    if (node != nullptr && seen.insert(node.get()).second) todo.push_back(node);
  };
  if (tensor.requires_grad()) add(torch::autograd::impl::gradient_edge(tensor).function);
  while (!todo.empty()) {
    const NodePtr node = std::move(todo.back());
    todo.pop_back();
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
    if (leaf != nullptr) visit(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) add(edge.function);
  }
}

}  // namespace

GradientRecorder* GradientRecorder::Current() { return current; }

GradientRecorder::Scope::Scope(GradientRecorder& recorder)
    : before_(std::exchange(current, &recorder)) {}

GradientRecorder::Scope::~Scope() { current = before_; }

void GradientRecorder::Want(const std::string& name, const torch::Tensor& parameter,
                            torch::Tensor sums) {
  wanted_[parameter.unsafeGetTensorImpl()] = {name, std::move(sums)};
}

GradientRecorder::Wanted* GradientRecorder::Find(const torch::Tensor& parameter) {
  const auto found = wanted_.find(parameter.unsafeGetTensorImpl());
  return found == wanted_.end() ? nullptr : &found->second;
}

void GradientRecorder::Refuse(std::string why) {
  if (problem_.empty()) problem_ = std::move(why);
}

torch::Tensor GradientRecorder::Take(const torch::Tensor& parameter) {
  Wanted* wanted = parameter.defined() ? Find(parameter) : nullptr;
  if (wanted == nullptr) return {};
  // The square of a sum is not the sum of squares.
  if (wanted->taken) Refuse(absl::StrCat(wanted->name, " is used by two layers"));
  wanted->taken = true;
  return wanted->sums;
}

torch::Tensor GradientRecorder::Record(torch::Tensor output,
                                       std::function<void(const torch::Tensor&)> squares) {
  if (output.dim() == 0 || output.size(0) != examples_) {
    Refuse(absl::StrCat("a layer's output has no row for each of ", examples_, " examples"));
    return output;
  }
  // With the input of the first layers, nothing that needs a gradient has come in yet.
  if (!output.requires_grad()) output.requires_grad_();
  output.register_hook([squares = std::move(squares)](const torch::Tensor& gradient) {
    torch::NoGradGuard no_grad;
    if (gradient.defined()) squares(gradient);
  });
  outputs_.emplace_back(output, static_cast<uint32_t>(output._version()));
  return output;
}

void GradientRecorder::RefuseUnrecorded(const torch::Tensor& logits) {
  VisitLeaves(logits, [this](const torch::Tensor& leaf) {
    if (const Wanted* wanted = Find(leaf)) {
      Refuse(absl::StrCat(wanted->name, " is used by an operation that records nothing"));
    }
  });
}

void GradientRecorder::RefuseChanged() {
  for (const auto& [output, version] : outputs_) {
    if (output._version() != version) Refuse("a layer's output was changed in place");
  }
  outputs_.clear();
}

absl::Status GradientRecorder::Check(const torch::Tensor& logits) {
  RefuseUnrecorded(logits);
  RefuseChanged();
  if (problem_.empty()) return absl::OkStatus();
  return absl::UnimplementedError(problem_);
}

}  // namespace tally
