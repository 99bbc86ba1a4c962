#include "worker/model/resnet_cifar/resnet_cifar.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/layers/layers.h"
#include "worker/model/module_tree.h"

namespace tally {
namespace {

namespace nn = torch::nn;

constexpr int64_t kWidths[] = {16, 32, 64};

struct ResnetConfig {
  InputSpec input;
  int64_t depth = 0;
};

Conv2d Conv3x3(int64_t in, int64_t out, int64_t stride) {
  return Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false));
}

// Two 3x3 convolutions around a parameter-free shortcut; x is [n, channels, rows, columns].
class BasicLayer {
 public:
  BasicLayer(ModuleTree& tree, std::string name, int64_t in, int64_t out)
      : name_(std::move(name)), new_channels_(out - in) {
    const int64_t stride = new_channels_ > 0 ? 2 : 1;
    conv1_ = tree.Add(name_ + ".conv1", Conv3x3(in, out, stride));
    bn1_ = tree.Add(name_ + ".bn1", BatchNorm2d(out));
    conv2_ = tree.Add(name_ + ".conv2", Conv3x3(out, out, 1));
    bn2_ = tree.Add(name_ + ".bn2", BatchNorm2d(out));
  }

  torch::Tensor Forward(const torch::Tensor& x) {
    const torch::Tensor inner = torch::relu(bn1_(conv1_(x)));
    return torch::relu(bn2_(conv2_(inner)) + Shortcut(x));
  }

  const std::string& name() const { return name_; }

 private:
  torch::Tensor Shortcut(const torch::Tensor& x) const {
    if (new_channels_ == 0) return x;
    const torch::Tensor half = x.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2);
    const int64_t side = new_channels_ / 2;
    return torch::constant_pad_nd(half, {0, 0, 0, 0, side, side});
  }

  const std::string name_;
  const int64_t new_channels_;
  Conv2d conv1_{nullptr};
  BatchNorm2d bn1_{nullptr};
  Conv2d conv2_{nullptr};
  BatchNorm2d bn2_{nullptr};
};

class ResnetCifar : public Architecture {
 public:
  explicit ResnetCifar(const ResnetConfig& config) : Architecture(config.input) {
    conv_ = tree_.Add("conv1", Conv3x3(3, kWidths[0], 1));
    bn_ = tree_.Add("bn1", BatchNorm2d(kWidths[0]));
    int64_t width = kWidths[0];
    for (int group = 0; group < 3; ++group) {
      for (int64_t i = 0; i < (config.depth - 2) / 6; ++i) {
        layers_.emplace_back(tree_, absl::StrCat("layer", group + 1, ".", i), width,
                             kWidths[group]);
        width = kWidths[group];
      }
    }
    head_ = tree_.Add("linear", Linear(width, config.input.classes));
  }

  torch::Tensor Forward(const torch::Tensor& input) override {
    torch::Tensor x = torch::relu(bn_(conv_(input)));
    for (BasicLayer& layer : layers_) x = layer.Forward(x);
    return head_(x.mean({2, 3}));
  }

  nn::Module& module() override { return tree_.root(); }

  std::vector<BlockSpec> Blocks() const override {
    std::vector<BlockSpec> blocks = {{"stem", {"conv1", "bn1"}}};
    for (const BasicLayer& layer : layers_) blocks.push_back({layer.name(), {layer.name()}});
    blocks.push_back({"head", {"linear"}});
    return blocks;
  }

  Initial InitialOf(absl::string_view name) const override {
    return absl::StartsWith(name, "linear") ? Initial::kFanIn : Initial::kFanInRelu;
  }

 private:
  ModuleTree tree_;
  Conv2d conv_{nullptr};
  BatchNorm2d bn_{nullptr};
  std::vector<BasicLayer> layers_;
  Linear head_{nullptr};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Architecture>> MakeResnetCifar(ModelConfig& config) {
  ResnetConfig resnet;
  resnet.depth = config.Int("depth", 8, 1202);
  if (resnet.depth % 6 != 2) {
    config.Error("depth", absl::StrCat("expected 6 n + 2, found ", resnet.depth));
  }
  config.OneOf("shortcut", {"A"}, "A");
  const auto size = static_cast<uint64_t>(config.Int("image_size", 4, 4096));
  resnet.input.shape = {3, size, size};
  resnet.input.classes = static_cast<uint32_t>(config.Int("num_labels", 2, 1 << 20));
  resnet.input.scaling = config.Scaling(3);
  TALLY_RETURN_IF_ERROR(config.Finish());
  return std::make_unique<ResnetCifar>(resnet);
}

}  // namespace tally
