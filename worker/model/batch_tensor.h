// Batches as tensors.
#pragma once

#include <torch/torch.h>

#include "worker/data/example.h"
#include "worker/model/architecture.h"

namespace tally {

// float32 [n, shape of input...], scaled. The batch's shape was checked.
torch::Tensor InputTensor(const Batch& batch, const InputSpec& input);
// int64 [n].
torch::Tensor LabelTensor(const Batch& batch);

}  // namespace tally
