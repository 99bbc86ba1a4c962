#include "worker/model/mlp/mlp.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/activation.h"
#include "worker/model/layers/layers.h"
#include "worker/model/module_tree.h"

namespace tally {
namespace {

struct MlpConfig {
  InputSpec input;
  std::vector<int64_t> hidden_sizes;
  Activation activation;
};

class Mlp : public Architecture {
 public:
  explicit Mlp(const MlpConfig& config)
      : Architecture(config.input), activation_(config.activation) {
    int64_t width = static_cast<int64_t>(config.input.shape[0]);
    for (const int64_t size : config.hidden_sizes) {
      const std::string name = absl::StrCat("layers.", layers_.size());
      layers_.push_back(tree_.Add(name, Linear(width, size)));
      width = size;
    }
    head_ = tree_.Add("head", Linear(width, config.input.classes));
  }

  torch::Tensor Forward(const torch::Tensor& input) override {
    torch::Tensor x = input.flatten(1);
    for (Linear& layer : layers_) x = Activate(activation_, layer(x));
    return head_(x);
  }

  torch::nn::Module& module() override { return tree_.root(); }

  std::vector<BlockSpec> Blocks() const override {
    std::vector<BlockSpec> blocks;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string name = absl::StrCat("layers.", i);
      blocks.push_back({name, {name}});
    }
    blocks.push_back({"head", {"head"}});
    return blocks;
  }

  Initial InitialOf(absl::string_view name) const override {
    return absl::StartsWith(name, "head") ? Initial::kFanIn : Initial::kFanInRelu;
  }

 private:
  ModuleTree tree_;
  std::vector<Linear> layers_;
  Linear head_{nullptr};
  const Activation activation_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Architecture>> MakeMlp(ModelConfig& config) {
  MlpConfig mlp;
  mlp.input.shape = {static_cast<uint64_t>(config.Int("input_size", 1, 1 << 28))};
  mlp.hidden_sizes = config.Ints("hidden_sizes", 1, 1 << 20);
  mlp.input.classes = static_cast<uint32_t>(config.Int("num_labels", 2, 1 << 20));
  mlp.activation = ReadActivation(config, "relu");
  mlp.input.scaling = config.Scaling(1);
  TALLY_RETURN_IF_ERROR(config.Finish());
  return std::make_unique<Mlp>(mlp);
}

}  // namespace tally
