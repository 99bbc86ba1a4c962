// What an architecture implements: one folder and one line in registry.cc. docs/adding-a-model.md.
// Methods may throw what LibTorch throws; class Model turns it into Status.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/model/pixel_scaling.h"

namespace tally {

// A block and the names of its parameters: `prefixes` are whole names or whole leading parts of
// them ("layer1.0" takes layer1.0.conv1.weight). They lie in the layout prefix by prefix, within
// one in the order of registration.
struct BlockSpec {
  std::string name;
  std::vector<std::string> prefixes;
};

enum class Initial {
  kZeros,
  kOnes,
  kTruncatedNormal,  // deviation 0.02, cut at two deviations: embeddings, tokens
  kFanIn,            // deviation sqrt(1 / inputs), cut likewise: linear layers
  kFanInRelu,        // deviation sqrt(2 / inputs), uncut: layers before a ReLU (He et al. 2015)
};

struct InputSpec {
  // Channels, rows, columns; or one extent: examples of any shape with as many elements.
  std::vector<uint64_t> shape;
  uint32_t classes = 0;
  PixelScaling scaling;
};

class Architecture {
 public:
  explicit Architecture(InputSpec input) : input_(std::move(input)) {}
  virtual ~Architecture() = default;

  const InputSpec& input() const { return input_; }
  // float32 [n, shape...], scaled, to logits [n, classes].
  virtual torch::Tensor Forward(const torch::Tensor& input) = 0;
  // Parameters and buffers under the names that checkpoints use.
  virtual torch::nn::Module& module() = 0;
  // In forward order, each parameter in exactly one; the last is the head.
  virtual std::vector<BlockSpec> Blocks() const = 0;
  // How a parameter that is a matrix or more starts; vectors named weight start as ones (they
  // belong to norms) and those named bias as zeros.
  virtual Initial InitialOf(absl::string_view name) const = 0;

 private:
  const InputSpec input_;
};

// The parameters of one block, in layout order.
struct BlockParameters {
  std::string name;
  std::vector<std::pair<std::string, torch::Tensor>> parameters;
};

// All blocks. INTERNAL naming the parameter or prefix if they do not cover the module's parameters
// exactly once each.
absl::StatusOr<std::vector<BlockParameters>> BlocksOf(Architecture& architecture);

// The module's floating-point buffers in the order of registration.
std::vector<std::pair<std::string, torch::Tensor>> FloatBuffersOf(Architecture& architecture);

}  // namespace tally
