// Linear layers with an activation between them.
//   {"input_size": 784, "hidden_sizes": [256, 128], "num_labels": 10, "hidden_act": "relu"}
// Tensors: layers.0.weight, layers.0.bias, ..., head.weight, head.bias. Blocks: layers.0, ...,
// head.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/architecture.h"
#include "worker/model/config_reader.h"

namespace tally {

inline constexpr char kMlpSampleConfig[] =
    R"({"model_type": "mlp", "input_size": 12, "hidden_sizes": [8, 6], "num_labels": 3,
        "hidden_act": "relu"})";

absl::StatusOr<std::unique_ptr<Architecture>> MakeMlp(ModelConfig& config);

}  // namespace tally
