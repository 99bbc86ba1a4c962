// A model's parameters, buffers and gradients as two flat float32 arrays in the order of its
// layout: the only bridge between LibTorch and spans. The model's tensors are views of the arrays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/layout.h"
#include "worker/model/model.h"

namespace tally {

// Called with a block whose gradients are complete. It must not throw and must not use the model;
// it may read gradients() of that block and, once it knows that no earlier block is still computing
// with them, nothing else. On the thread that runs backward; with a GPU that is LibTorch's own.
using GradientReadyCallback = std::function<void(uint32_t block)>;

struct LoadOptions {
  // Tensors of the last trained block are neither expected nor read (ModelSpec.reset_head).
  bool skip_head = false;
};

// A step, in order: ZeroGradients(), model.AccumulateGradients(batch), FinishBackward().
class FlatParameters {
 public:
  // Copies the model's values into the arrays and makes its tensors views of them. The model must
  // outlive this object and be in no other. INTERNAL if its blocks do not cover its parameters.
  static absl::StatusOr<std::unique_ptr<FlatParameters>> Create(Model& model);
  ~FlatParameters();
  FlatParameters(const FlatParameters&) = delete;
  FlatParameters& operator=(const FlatParameters&) = delete;

  const Layout& layout() const;
  // layout().size() elements: parameters, then float buffers. Writing changes the model.
  absl::Span<float> parameters();
  absl::Span<const float> parameters() const;
  // layout().trained_size() elements.
  absl::Span<float> gradients();

  void ZeroGradients();
  // Null for none. Calls come in the order of completion, each block once a backward pass.
  void SetGradientReadyCallback(GradientReadyCallback callback);
  // After each backward pass: reports the blocks that got no gradient, or only for some of their
  // parameters (what is missing counts as it stands in gradients()), and arms the next pass.
  // INTERNAL if LibTorch throws.
  absl::Status FinishBackward();

  // Every tensor of the layout by name, in any order. INVALID_ARGUMENT with all that is missing,
  // unexpected, of another shape or not floating-point, one a line; nothing is changed then.
  // Integer counters named *.num_batches_tracked are left out, with a line in the log.
  absl::Status Load(const CheckpointReader& checkpoint, const LoadOptions& options = {});

 private:
  struct State;
  explicit FlatParameters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tally
