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
#include "worker/load_parameters.h"
#include "worker/model/model.h"

namespace tally {

// Called with a block whose gradients are complete, on the thread that runs backward. It may read
// the block's part of gradients(); it must neither throw nor touch the parameters, which the earlier
// blocks' backward still needs.
using GradientReadyCallback = std::function<void(uint32_t block)>;

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

  // See LoadParameters.
  absl::Status Load(const CheckpointReader& checkpoint, const LoadOptions& options = {});

 private:
  struct State;
  explicit FlatParameters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tally
