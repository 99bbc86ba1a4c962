// A vision transformer (Dosovitskiy et al. 2021): patches, a CLS token, learned positions, pre-norm
// layers, the logits from the CLS token. There is no norm behind the last layer but the head's own.
//   {"image_size": 28, "patch_size": 4, "num_channels": 1, "hidden_size": 64,
//    "num_hidden_layers": 6, "num_attention_heads": 4, "head_dim": 64, "intermediate_size": 128,
//    "hidden_act": "relu", "qkv_bias": false, "layer_norm_eps": 1e-5, "pool": "cls",
//    "num_labels": 10}
// Tensors: cls_token [1, 1, width], pos_embedding [1, patches + 1, width], to_patch_embedding.1,
// transformer.layers.N.0.{norm, fn.to_qkv, fn.to_out.0}, transformer.layers.N.1.{norm, fn.net.0,
// fn.net.3}, mlp_head.0 (norm), mlp_head.1. Blocks: embeddings, layers.N, head.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/architecture.h"
#include "worker/model/config_reader.h"

namespace tally {

inline constexpr char kVitSampleConfig[] =
    R"({"model_type": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1,
        "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "num_labels": 3})";

absl::StatusOr<std::unique_ptr<Architecture>> MakeVit(ModelConfig& config);

}  // namespace tally
