// ResNet for small images (He et al. 2016, section 4.2): a 3x3 stem of 16 channels, three groups of
// (depth - 2) / 6 basic layers with 16, 32 and 64 channels, an average and a linear head.
//   {"depth": 20, "num_labels": 10, "shortcut": "A", "image_size": 32}
// Shortcut A, where the shape changes: every second row and column, the new channels zero, a
// quarter of the new width on each side. Channels: 3. BatchNorm: eps 1e-5, momentum 0.1.
// Tensors: conv1, bn1, layerG.N.{conv1, bn1, conv2, bn2}, linear. Blocks: stem, layerG.N, head.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/architecture.h"
#include "worker/model/config_reader.h"

namespace tally {

inline constexpr char kResnetCifarSampleConfig[] =
    R"({"model_type": "resnet_cifar", "depth": 8, "num_labels": 3, "shortcut": "A",
        "image_size": 8})";

absl::StatusOr<std::unique_ptr<Architecture>> MakeResnetCifar(ModelConfig& config);

}  // namespace tally
