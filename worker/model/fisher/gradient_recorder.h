// The squared gradient of each example by itself, from one backward pass over a batch. A batch's
// gradient of a parameter is already the sum over its examples; but a layer's input and the
// gradient of its output still tell them apart. So a layer that takes part
// (worker/model/layers/layers.h) runs with its parameters detached, and when its output's gradient
// arrives, it adds up the squares.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace tally {

// Of one forward pass over `examples` examples and the backward passes through it. For one thread.
class GradientRecorder {
 public:
  explicit GradientRecorder(int64_t examples) : examples_(examples) {}
  GradientRecorder(const GradientRecorder&) = delete;
  GradientRecorder& operator=(const GradientRecorder&) = delete;

  // Before the forward pass: a parameter whose squares go to `sums`, contiguous and of its shape.
  void Want(const std::string& name, const torch::Tensor& parameter, torch::Tensor sums);

  // The recorder of the forward pass that this thread is in; null in any other.
  static GradientRecorder* Current();
  class Scope {
   public:
    explicit Scope(GradientRecorder& recorder);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GradientRecorder* const before_;
  };

  // For layers, which then use the parameter detached: its sums, undefined if they are not wanted.
  torch::Tensor Take(const torch::Tensor& parameter);
  // For layers, with their output [examples, ...], computed from detached parameters: `squares` is
  // called with its gradient in each backward pass. Returns the output.
  torch::Tensor Record(torch::Tensor output, std::function<void(const torch::Tensor&)> squares);

  // After the forward pass. UNIMPLEMENTED naming the parameter or what else keeps the squares from
  // being right: a parameter that reaches the logits past the layers that record, or through two of
  // them; an output without a row an example, or changed in place.
  absl::Status Check(const torch::Tensor& logits);

 private:
  struct Wanted {
    std::string name;
    torch::Tensor sums;
    bool taken = false;
  };

  Wanted* Find(const torch::Tensor& parameter);
  void Refuse(std::string why);
  void RefuseUnrecorded(const torch::Tensor& logits);
  void RefuseChanged();

  const int64_t examples_;
  std::unordered_map<const void*, Wanted> wanted_;
  std::vector<std::pair<torch::Tensor, uint32_t>> outputs_;  // and their versions, until the check
  std::string problem_;                                      // the first
};

}  // namespace tally
