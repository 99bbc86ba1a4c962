// Squared gradients of single layers, with options that no registered model uses, and of what a
// recorder cannot follow.
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/model/fisher_reference.h"
#include "worker/model/fisher/fisher.h"
#include "worker/model/layers/layers.h"
#include "worker/model/module_tree.h"

namespace tally {
namespace {

using ::tally::testing::ExpectNear;
using ::tally::testing::ReferenceFisher;
using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

using Function = std::function<torch::Tensor(const torch::Tensor&)>;

// Any function of the parameters in a tree, with three classes.
class Custom : public Architecture {
 public:
  Custom() : Architecture({{1}, 3, {}}) {}

  torch::Tensor Forward(const torch::Tensor& input) override { return forward(input); }
  torch::nn::Module& module() override { return tree.root(); }
  std::vector<BlockSpec> Blocks() const override { return {{"all", names}}; }
  Initial InitialOf(absl::string_view) const override { return Initial::kFanIn; }

  template <typename Holder>
  Holder Add(const std::string& name, Holder part) {
    names.push_back(name);
    return tree.Add(name, part);
  }

  ModuleTree tree;
  std::vector<std::string> names;
  Function forward;
};

torch::Tensor Input(torch::IntArrayRef shape) {
  return torch::rand(shape, torch::make_generator<torch::CPUGeneratorImpl>(3)) - 0.5;
}

FisherBatch Labelled(const torch::Tensor& input, FisherKind kind = FisherKind::kEmpirical) {
  return {input, torch::arange(input.size(0), torch::kInt64).remainder(3), kind};
}

std::vector<float> Zeros(Custom& model) {
  size_t size = 0;
  for (const torch::Tensor& parameter : model.module().parameters()) {
    size += static_cast<size_t>(parameter.numel());
  }
  return std::vector<float>(size);
}

// LibTorch's own initialisation, of a fixed seed.
class FisherLayers : public ::testing::Test {
 protected:
  FisherLayers() { torch::manual_seed(5); }

  // A layer and a head above its whole output, of `outputs` values an example.
  Function ThenLogits(Function layer, int64_t outputs) {
    Linear head = model_.Add("head", Linear(outputs, 3));
    return [layer, head](const torch::Tensor& x) mutable {
      return head(layer(x).flatten(1));
    };
  }

  void ExpectReference(const torch::Tensor& input) {
    model_.module().eval();
    for (const FisherKind kind : {FisherKind::kEmpirical, FisherKind::kExpected}) {
      model_.module().to(torch::kFloat32);
      std::vector<float> found = Zeros(model_);
      const FisherBatch batch = Labelled(input, kind);
      TALLY_ASSERT_OK(AddFisherBatched(model_, batch, absl::MakeSpan(found)));
      ExpectNear(found, ReferenceFisher(model_, batch.input, batch.labels, kind));
    }
  }

  // Batched is refused with nothing added, one by one is right.
  void ExpectRefused(const torch::Tensor& input, const std::string& why) {
    model_.module().eval();
    std::vector<float> found = Zeros(model_);
    const FisherBatch batch = Labelled(input);
    EXPECT_THAT(AddFisherBatched(model_, batch, absl::MakeSpan(found)),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(why)));
    EXPECT_EQ(found, Zeros(model_));
    TALLY_ASSERT_OK(AddFisherOneByOne(model_, batch, absl::MakeSpan(found)));
    ExpectNear(found, ReferenceFisher(model_, batch.input, batch.labels, batch.kind));
  }

  Custom model_;
};

void Convolve(Custom& model, const torch::nn::Conv2dOptions& options, Function* layer) {
  *layer = [conv = model.Add("conv", Conv2d(options))](const torch::Tensor& x) mutable {
    return torch::tanh(conv(x));
  };
}

TEST_F(FisherLayers, Conv2dWithBiasStrideAndDilation) {
  Function layer;
  Convolve(model_, torch::nn::Conv2dOptions(2, 4, {3, 2}).stride({2, 1}).padding({1, 2})
                       .dilation({1, 2}), &layer);
  model_.forward = ThenLogits(layer, 4 * 4 * 9);
  ExpectReference(Input({5, 2, 7, 7}));
}

TEST_F(FisherLayers, Conv2dInGroups) {
  Function layer;
  Convolve(model_, torch::nn::Conv2dOptions(4, 6, 3).groups(2), &layer);
  model_.forward = ThenLogits(layer, 6 * 3 * 3);
  ExpectReference(Input({4, 4, 5, 5}));
}

TEST_F(FisherLayers, Conv2dOfOnePlace) {
  Function layer;
  Convolve(model_, torch::nn::Conv2dOptions(3, 4, 5), &layer);
  model_.forward = ThenLogits(layer, 4);
  ExpectReference(Input({4, 3, 5, 5}));
}

// Patches of more than a tile, so that examples come in several parts.
TEST_F(FisherLayers, Conv2dOfLargeImages) {
  Function layer;
  Convolve(model_, torch::nn::Conv2dOptions(8, 2, 3).padding(1), &layer);
  Function small = [layer](const torch::Tensor& x) { return layer(x).mean({2, 3}); };
  model_.forward = ThenLogits(small, 2);
  ExpectReference(Input({3, 8, 64, 48}));
}

TEST_F(FisherLayers, LinearOverTwoExtents) {
  Linear linear = model_.Add("linear", Linear(4, 5));
  model_.forward = ThenLogits([linear](const torch::Tensor& x) mutable { return linear(x); },
                              2 * 3 * 5);
  ExpectReference(Input({4, 2, 3, 4}));
}

TEST_F(FisherLayers, LayerNormOverTwoExtents) {
  LayerNorm norm = model_.Add("norm", LayerNorm(torch::nn::LayerNormOptions({3, 4})));
  model_.forward = ThenLogits([norm](const torch::Tensor& x) mutable { return norm(x); }, 2 * 12);
  ExpectReference(Input({4, 2, 3, 4}));
}

TEST_F(FisherLayers, LayerNormOverAllExtents) {
  LayerNorm norm = model_.Add("norm", LayerNorm(torch::nn::LayerNormOptions({6})));
  model_.forward = ThenLogits([norm](const torch::Tensor& x) mutable { return norm(x); }, 6);
  ExpectReference(Input({4, 6}));
}

TEST_F(FisherLayers, NormsWithoutParameters) {
  LayerNorm layer_norm(torch::nn::LayerNormOptions({6}).elementwise_affine(false));
  BatchNorm2d batch_norm = model_.tree.Add(
      "batch_norm", BatchNorm2d(torch::nn::BatchNorm2dOptions(2).affine(false)));
  Linear linear = model_.Add("linear", Linear(6, 6));
  model_.forward = ThenLogits(
      [=](const torch::Tensor& x) mutable { return batch_norm(layer_norm(linear(x))); },
      2 * 3 * 6);
  ExpectReference(Input({4, 2, 3, 6}));
}

// Example 1 has an index twice, whose gradients are summed before they are squared; examples 0, 1
// and 3 share indices with others, whose gradients are not; 0 is the padding.
TEST_F(FisherLayers, EmbeddingWithRepeatedIndicesAndPadding) {
  Embedding embedding =
      model_.Add("embedding", Embedding(torch::nn::EmbeddingOptions(7, 4).padding_idx(0)));
  model_.forward = ThenLogits(
      [embedding](const torch::Tensor& x) mutable {
        return torch::tanh(embedding(x.to(torch::kInt64)));
      },
      3 * 4);
  ExpectReference(torch::tensor(
      {{1.f, 2.f, 3.f}, {4.f, 4.f, 6.f}, {3.f, 2.f, 0.f}, {0.f, 0.f, 4.f}}));
}

TEST_F(FisherLayers, ParametersSharedByExamples) {
  torch::Tensor token = model_.tree.AddParameter("token", Input({1, 2, 4}));
  model_.names.push_back("token");
  model_.forward = ThenLogits(
      [token](const torch::Tensor& x) {
        return torch::tanh(x * ForExamples(token, x.size(0)));
      },
      8);
  ExpectReference(Input({4, 2, 4}));
}

// Outside of a recorded pass the layers are LibTorch's own.
TEST_F(FisherLayers, ElsewhereGiveGradientsToParameters) {
  Linear linear = model_.Add("linear", Linear(4, 3));
  linear(Input({2, 4})).sum().backward();
  EXPECT_TRUE(linear->weight.grad().defined());
  EXPECT_EQ(ForExamples(linear->weight.unsqueeze(0), 5).sizes(), torch::IntArrayRef({5, 3, 4}));
}

TEST_F(FisherLayers, APlainLayerIsRefusedByName) {
  auto plain = model_.Add("plain", torch::nn::Linear(4, 4));
  model_.forward = ThenLogits([plain](const torch::Tensor& x) mutable { return plain(x); }, 4);
  ExpectRefused(Input({3, 4}), "plain.");
}

TEST_F(FisherLayers, ALayerUsedTwiceIsRefusedByName) {
  Linear linear = model_.Add("linear", Linear(4, 4));
  model_.forward = ThenLogits(
      [linear](const torch::Tensor& x) mutable { return linear(torch::tanh(linear(x))); }, 4);
  ExpectRefused(Input({3, 4}), "linear.weight is used by two layers");
}

// Recorded once, and once more past the layer.
TEST_F(FisherLayers, AWeightTiedToAnOperationIsRefusedByName) {
  Linear linear = model_.Add("linear", Linear(4, 4));
  model_.forward = ThenLogits(
      [linear](const torch::Tensor& x) mutable {
        return torch::matmul(torch::tanh(linear(x)), linear->weight);
      },
      4);
  ExpectRefused(Input({3, 4}), "linear.weight is used by an operation that records nothing");
}

TEST_F(FisherLayers, RowsThatAreNotExamplesAreRefused) {
  Linear linear = model_.Add("linear", Linear(4, 4));
  model_.forward = ThenLogits(
      [linear](const torch::Tensor& x) mutable {
        return linear(x.reshape({-1, 4})).reshape({x.size(0), -1});
      },
      8);
  ExpectRefused(Input({3, 2, 4}), "no row for each of 3 examples");
}

TEST_F(FisherLayers, AnOutputChangedInPlaceIsRefused) {
  Linear first = model_.Add("first", Linear(4, 4));
  Linear second = model_.Add("second", Linear(4, 4));
  model_.forward = ThenLogits(
      [=](const torch::Tensor& x) mutable { return second(first(x)).mul_(2); }, 4);
  ExpectRefused(Input({3, 4}), "changed in place");
}

TEST_F(FisherLayers, AnEmbeddingThatChangesItsWeightsIsRefused) {
  Embedding embedding = model_.Add(
      "embedding", Embedding(torch::nn::EmbeddingOptions(7, 4).scale_grad_by_freq(true)));
  model_.forward = ThenLogits(
      [embedding](const torch::Tensor& x) mutable { return embedding(x.to(torch::kInt64)); }, 8);
  model_.module().eval();
  std::vector<float> sums = Zeros(model_);
  EXPECT_THAT(AddFisherBatched(model_, Labelled(torch::tensor({{1.f, 2.f}, {3.f, 4.f}})),
                               absl::MakeSpan(sums)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("embedding.weight")));
}

}  // namespace
}  // namespace tally
