// The diagonal of the Fisher information: squared gradients of the log likelihood, example by
// example (Sung et al. 2021, arXiv 2111.09839, equations 2 and 3), not the square of a batch's
// gradient. Class Model calls this; both may throw what LibTorch throws.
#pragma once

#include <torch/torch.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/model/architecture.h"
#include "worker/model/fisher/fisher_kind.h"

namespace tally {

struct FisherBatch {
  torch::Tensor input;   // as Architecture::Forward takes it
  torch::Tensor labels;  // int64 [n]
  FisherKind kind = FisherKind::kEmpirical;
};

// Both add to `sums`, one float32 a parameter in the order of BlocksOf: for each example x with label
// y, (d log p(y|x) / d parameter)^2, or sum_c p(c|x) (d log p(c|x) / d parameter)^2. Frozen
// parameters (requires_grad false) get nothing. The module is in evaluation mode, in which examples
// do not depend on each other. Neither parameters, buffers nor gradients are touched.
// INVALID_ARGUMENT for input, FAILED_PRECONDITION for logits or sums that are not finite, naming the
// example or parameter; `sums` are of no use then.

// One forward pass, and one backward pass (expected: one a class). UNIMPLEMENTED, with nothing
// added, for a module that GradientRecorder cannot follow.
absl::Status AddFisherBatched(Architecture& architecture, const FisherBatch& batch,
                              absl::Span<float> sums);
// As many passes for each example: for any module.
absl::Status AddFisherOneByOne(Architecture& architecture, const FisherBatch& batch,
                               absl::Span<float> sums);

}  // namespace tally
