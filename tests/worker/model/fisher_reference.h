// Squared gradients as they are defined, slowly: one example, one label and one autograd pass after
// the other, in float64.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/architecture.h"
#include "worker/model/fisher/fisher_kind.h"

namespace tally::testing {

inline torch::Tensor LogProbabilities(Architecture& architecture, const torch::Tensor& example) {
  return architecture.Forward(example).log_softmax(1)[0];
}

// The gradients of `value`, all parameters' as one vector; zeros for what is frozen or unused.
inline torch::Tensor FlatGradient(Architecture& architecture, const torch::Tensor& value) {
  auto blocks = BlocksOf(architecture);
  EXPECT_TRUE(blocks.ok()) << blocks.status();
  for (auto& block : *blocks) {
    for (auto& [name, tensor] : block.parameters) tensor.mutable_grad() = torch::Tensor();
  }
  if (value.requires_grad()) value.backward();
  std::vector<torch::Tensor> all;
  for (auto& block : *blocks) {
    for (auto& [name, tensor] : block.parameters) {
      const torch::Tensor gradient = tensor.grad();
      all.push_back((gradient.defined() ? gradient : torch::zeros_like(tensor)).flatten().clone());
      tensor.mutable_grad() = torch::Tensor();
    }
  }
  return torch::cat(all).detach();
}

// Turns the architecture's parameters and buffers into float64. In evaluation mode.
inline std::vector<double> ReferenceFisher(Architecture& architecture, const torch::Tensor& input,
                                           const torch::Tensor& labels, FisherKind kind) {
  architecture.module().to(torch::kFloat64);
  architecture.module().eval();
  torch::Tensor sums;
  const auto add = [&](const torch::Tensor& example, int64_t label, bool weighted) {
    const torch::Tensor log_p = LogProbabilities(architecture, example)[label];
    const double weight = weighted ? std::exp(log_p.item<double>()) : 1;
    const torch::Tensor squares = FlatGradient(architecture, log_p).square() * weight;
    sums = sums.defined() ? sums + squares : squares;
  };
  for (int64_t i = 0; i < input.size(0); ++i) {
    const torch::Tensor example = input.slice(0, i, i + 1).to(torch::kFloat64);
    if (kind == FisherKind::kEmpirical) add(example, labels[i].item<int64_t>(), false);
    const int64_t classes = kind == FisherKind::kExpected ? architecture.input().classes : 0;
    for (int64_t c = 0; c < classes; ++c) add(example, c, true);
  }
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

// Float32's rounding: relative to the value, and to the largest of all for those that cancelled.
inline void ExpectNear(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, value);
  ASSERT_GT(largest, 0);
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4 * expected[i] + 1e-8 * largest) << i;
  }
}

}  // namespace tally::testing
