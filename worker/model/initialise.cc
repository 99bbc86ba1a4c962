#include "worker/model/initialise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/match.h"
#include "common/base/random.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr double kEmbeddingDeviation = 0.02;

// (0, 1], from the upper 53 bits.
double Unit(uint64_t word) { return static_cast<double>((word >> 11) + 1) * 0x1p-53; }

// A standard normal value by Box and Muller; two words of the stream each.
double Normal(uint64_t key, uint64_t draw) {
  const double radius = std::sqrt(-2 * std::log(Unit(RandomWord(key, 2 * draw))));
  return radius * std::cos(2 * std::numbers::pi * Unit(RandomWord(key, 2 * draw + 1)));
}

void FillNormal(torch::Tensor tensor, double deviation, double cut, uint64_t key) {
  torch::Tensor values = torch::empty(tensor.sizes(), torch::kFloat32);
  float* out = values.data_ptr<float>();
  uint64_t draw = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    double value = Normal(key, draw++);
    while (std::abs(value) > cut) value = Normal(key, draw++);
    out[i] = static_cast<float>(deviation * value);
  }
  tensor.copy_(values);
}

// Inputs of one output: all extents but the first.
double FanIn(const torch::Tensor& tensor) {
  return static_cast<double>(tensor.numel()) / static_cast<double>(tensor.size(0));
}

void FillMatrix(torch::Tensor tensor, Initial initial, uint64_t key) {
  constexpr double kUncut = std::numeric_limits<double>::infinity();
  switch (initial) {
    case Initial::kZeros:
      tensor.zero_();
      return;
    case Initial::kOnes:
      tensor.fill_(1);
      return;
    case Initial::kTruncatedNormal:
      return FillNormal(tensor, kEmbeddingDeviation, 2, key);
    case Initial::kFanIn:
      return FillNormal(tensor, std::sqrt(1 / FanIn(tensor)), 2, key);
    case Initial::kFanInRelu:
      return FillNormal(tensor, std::sqrt(2 / FanIn(tensor)), kUncut, key);
  }
}

void FillParameter(const Architecture& architecture, const std::string& name, torch::Tensor tensor,
                   uint64_t key) {
  if (tensor.dim() > 1) return FillMatrix(tensor, architecture.InitialOf(name), key);
  tensor.fill_(absl::EndsWith(name, "bias") ? 0 : 1);
}

absl::Status Fill(Architecture& architecture, uint64_t seed, bool head_only) {
  torch::NoGradGuard no_grad;
  TALLY_ASSIGN_OR_RETURN(const auto blocks, BlocksOf(architecture));
  uint64_t index = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool wanted = !head_only || b + 1 == blocks.size();
    for (const auto& [name, tensor] : blocks[b].parameters) {
      const uint64_t key = StreamKey(seed, 0, index++, RandomPurpose::kInitialise);
      if (wanted) FillParameter(architecture, name, tensor, key);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InitialiseAll(Architecture& architecture, uint64_t seed) {
  torch::NoGradGuard no_grad;
  for (auto& [name, buffer] : FloatBuffersOf(architecture)) {
    buffer.fill_(absl::EndsWith(name, "var") ? 1 : 0);
  }
  return Fill(architecture, seed, false);
}

absl::Status InitialiseHead(Architecture& architecture, uint64_t seed) {
  return Fill(architecture, seed, true);
}

}  // namespace tally
