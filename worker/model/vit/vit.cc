#include "worker/model/vit/vit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/activation.h"
#include "worker/model/layers/layers.h"
#include "worker/model/module_tree.h"

namespace tally {
namespace {

namespace nn = torch::nn;

struct VitConfig {
  InputSpec input;
  int64_t patch = 0;  // pixels a side
  int64_t width = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t mlp_width = 0;
  Activation activation = Activation::kGelu;
  bool qkv_bias = false;
  double norm_epsilon = 0;

  int64_t channels() const { return static_cast<int64_t>(input.shape[0]); }
  int64_t grid() const { return static_cast<int64_t>(input.shape[1]) / patch; }
};

LayerNorm Norm(const VitConfig& config) {
  return LayerNorm(nn::LayerNormOptions({config.width}).eps(config.norm_epsilon));
}

// One transformer layer; x is [n, tokens, width].
class Layer {
 public:
  Layer(ModuleTree& tree, const std::string& name, const VitConfig& config)
      : heads_(config.heads), head_dim_(config.head_dim), activation_(config.activation) {
    const int64_t inner = heads_ * head_dim_;
    const auto at = [&](const char* part) { return absl::StrCat(name, part); };
    attention_norm_ = tree.Add(at(".0.norm"), Norm(config));
    qkv_ = tree.Add(at(".0.fn.to_qkv"),
                    Linear(nn::LinearOptions(config.width, 3 * inner).bias(config.qkv_bias)));
    out_ = tree.Add(at(".0.fn.to_out.0"), Linear(inner, config.width));
    mlp_norm_ = tree.Add(at(".1.norm"), Norm(config));
    up_ = tree.Add(at(".1.fn.net.0"), Linear(config.width, config.mlp_width));
    down_ = tree.Add(at(".1.fn.net.3"), Linear(config.mlp_width, config.width));
  }

  torch::Tensor Forward(torch::Tensor x) {
    x = x + Attend(attention_norm_(x));
    return x + down_(Activate(activation_, up_(mlp_norm_(x))));
  }

 private:
  torch::Tensor Attend(const torch::Tensor& x) {
    const int64_t n = x.size(0);
    const int64_t tokens = x.size(1);
    // [3, n, heads, tokens, head_dim]: to_qkv stacks q, k and v, each head by head.
    const torch::Tensor qkv =
        qkv_(x).reshape({n, tokens, 3, heads_, head_dim_}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(head_dim_));
    const torch::Tensor scores = torch::matmul(qkv[0], qkv[1].transpose(-2, -1)) * scale;
    const torch::Tensor mixed = torch::matmul(scores.softmax(-1), qkv[2]);
    return out_(mixed.transpose(1, 2).reshape({n, tokens, heads_ * head_dim_}));
  }

  const int64_t heads_;
  const int64_t head_dim_;
  const Activation activation_;
  LayerNorm attention_norm_{nullptr};
  Linear qkv_{nullptr};
  Linear out_{nullptr};
  LayerNorm mlp_norm_{nullptr};
  Linear up_{nullptr};
  Linear down_{nullptr};
};

class Vit : public Architecture {
 public:
  explicit Vit(const VitConfig& config)
      : Architecture(config.input), patch_(config.patch), grid_(config.grid()) {
    const int64_t tokens = grid_ * grid_ + 1;
    position_ = tree_.AddParameter("pos_embedding", torch::zeros({1, tokens, config.width}));
    cls_ = tree_.AddParameter("cls_token", torch::zeros({1, 1, config.width}));
    embed_ = tree_.Add("to_patch_embedding.1",
                       Linear(config.channels() * patch_ * patch_, config.width));
    for (int64_t i = 0; i < config.layers; ++i) {
      layers_.emplace_back(tree_, absl::StrCat("transformer.layers.", i), config);
    }
    head_norm_ = tree_.Add("mlp_head.0", Norm(config));
    head_ = tree_.Add("mlp_head.1", Linear(config.width, config.input.classes));
  }

  torch::Tensor Forward(const torch::Tensor& input) override {
    const int64_t n = input.size(0);
    const torch::Tensor patches = embed_(Patches(input));
    torch::Tensor x = torch::cat({ForExamples(cls_, n), patches}, 1) + ForExamples(position_, n);
    for (Layer& layer : layers_) x = layer.Forward(x);
    return head_(head_norm_(x.select(1, 0)));
  }

  nn::Module& module() override { return tree_.root(); }

  std::vector<BlockSpec> Blocks() const override {
    std::vector<BlockSpec> blocks = {
        {"embeddings", {"cls_token", "pos_embedding", "to_patch_embedding"}}};
    for (size_t i = 0; i < layers_.size(); ++i) {
      blocks.push_back({absl::StrCat("layers.", i), {absl::StrCat("transformer.layers.", i)}});
    }
    blocks.push_back({"head", {"mlp_head"}});
    return blocks;
  }

  Initial InitialOf(absl::string_view name) const override {
    const bool embedding = name == "cls_token" || name == "pos_embedding";
    return embedding ? Initial::kTruncatedNormal : Initial::kFanIn;
  }

 private:
  // [n, channels, rows, columns] to [n, patches, patch * patch * channels]: patches by rows, the
  // values of one by rows, then columns, then channels.
  torch::Tensor Patches(const torch::Tensor& images) const {
    const int64_t n = images.size(0);
    const int64_t channels = images.size(1);
    return images.reshape({n, channels, grid_, patch_, grid_, patch_})
        .permute({0, 2, 4, 3, 5, 1})
        .reshape({n, grid_ * grid_, patch_ * patch_ * channels});
  }

  ModuleTree tree_;
  const int64_t patch_;
  const int64_t grid_;
  torch::Tensor cls_;
  torch::Tensor position_;
  Linear embed_{nullptr};
  std::vector<Layer> layers_;
  LayerNorm head_norm_{nullptr};
  Linear head_{nullptr};
};

void ReadShape(ModelConfig& config, VitConfig& vit) {
  const auto size = static_cast<uint64_t>(config.Int("image_size", 1, 4096));
  const auto channels = static_cast<uint64_t>(config.Int("num_channels", 1, 64));
  vit.patch = config.Int("patch_size", 1, 4096);
  if (size % static_cast<uint64_t>(vit.patch) != 0) {
    config.Error("patch_size",
                 absl::StrCat("expected a divisor of image_size ", size, ", found ", vit.patch));
  }
  vit.input.shape = {channels, size, size};
  vit.input.scaling = config.Scaling(channels);
  vit.input.classes = static_cast<uint32_t>(config.Int("num_labels", 2, 1 << 20));
}

void ReadLayers(ModelConfig& config, VitConfig& vit) {
  vit.width = config.Int("hidden_size", 1, 1 << 16);
  vit.layers = config.Int("num_hidden_layers", 1, 1024);
  vit.heads = config.Int("num_attention_heads", 1, 1024);
  const bool has_head_dim = config.Has("head_dim");
  vit.head_dim = config.Int("head_dim", 1, 1 << 16, std::max<int64_t>(vit.width / vit.heads, 1));
  if (!has_head_dim && vit.width % vit.heads != 0) {
    config.Error("hidden_size", absl::StrCat("expected a multiple of num_attention_heads ",
                                             vit.heads, " (or a head_dim), found ", vit.width));
  }
  vit.mlp_width = config.Int("intermediate_size", 1, 1 << 18);
  vit.activation = ReadActivation(config, "gelu");
  vit.qkv_bias = config.Bool("qkv_bias", false);
  vit.norm_epsilon = config.Double("layer_norm_eps", 0, 1e-5);
  config.OneOf("pool", {"cls"}, "cls");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Architecture>> MakeVit(ModelConfig& config) {
  VitConfig vit;
  ReadShape(config, vit);
  ReadLayers(config, vit);
  TALLY_RETURN_IF_ERROR(config.Finish());
  return std::make_unique<Vit>(vit);
}

}  // namespace tally
