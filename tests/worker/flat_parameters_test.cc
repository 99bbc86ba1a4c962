#include "worker/flat_parameters.h"

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/checkpoint/safetensors_writer.h"
#include "gtest/gtest.h"
#include "tests/worker/data/idx_files.h"
#include "worker/model/architecture.h"

namespace tally {
namespace {

using ::tally::testing::Folder;
using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMlp[] =
    R"({"input_size": 4, "hidden_sizes": [3, 2], "num_labels": 2, "hidden_act": "tanh"})";
constexpr char kResnet[] = R"({"depth": 8, "num_labels": 3, "image_size": 8})";

struct Linked {
  std::unique_ptr<Model> model;
  std::unique_ptr<FlatParameters> flat;
};

Linked Make(const char* architecture, const char* config) {
  Linked linked;
  auto model = MakeModel(architecture, config);
  EXPECT_THAT(model, IsOk());
  linked.model = *std::move(model);
  EXPECT_THAT(linked.model->Initialise(1), IsOk());
  auto flat = FlatParameters::Create(*linked.model);
  EXPECT_THAT(flat, IsOk());
  linked.flat = *std::move(flat);
  return linked;
}

Batch SomeBatch(const Model& model, uint32_t size) {
  Batch batch;
  batch.format = {model.input_shape(), ElementType::kUint8};
  batch.elements.resize(size * batch.format.bytes());
  for (size_t i = 0; i < batch.elements.size(); ++i) batch.elements[i] = static_cast<char>(i * 37);
  for (uint32_t i = 0; i < size; ++i) batch.labels.push_back(i % model.classes());
  return batch;
}

std::vector<float> Copy(absl::Span<const float> values) { return {values.begin(), values.end()}; }

TEST(FlatParameters, LayoutFollowsTheBlocks) {
  const Linked mlp = Make("mlp", kMlp);
  const Layout& layout = mlp.flat->layout();
  ASSERT_EQ(layout.blocks().size(), 3u);
  EXPECT_EQ(layout.blocks()[1].name, "layers.1");
  EXPECT_EQ(layout.blocks()[1].first, 15u);
  EXPECT_EQ(layout.blocks()[1].count, 8u);
  EXPECT_EQ(layout.tensors()[2].name, "layers.1.weight");
  EXPECT_THAT(layout.tensors()[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(layout.size(), 15u + 8 + 6);
  EXPECT_FALSE(layout.has_buffers());
}

TEST(FlatParameters, BuffersComeLastAndWithoutCounters) {
  const Linked resnet = Make("resnet_cifar", kResnet);
  const Layout& layout = resnet.flat->layout();
  EXPECT_TRUE(layout.has_buffers());
  EXPECT_EQ(layout.blocks().back().name, "buffers");
  EXPECT_EQ(resnet.flat->parameters().size(), layout.size());
  EXPECT_EQ(resnet.flat->gradients().size(), layout.trained_size());
  EXPECT_LT(layout.trained_size(), layout.size());
  for (const LayoutTensor& tensor : layout.tensors()) {
    EXPECT_THAT(tensor.name, Not(HasSubstr("num_batches_tracked")));
    EXPECT_EQ(tensor.name.find("running_") != std::string::npos,
              tensor.block == layout.trained_blocks());
  }
}

TEST(FlatParameters, WritingTheArrayChangesTheModelAndBack) {
  const Linked mlp = Make("mlp", kMlp);
  auto parameters = mlp.model->architecture().module().named_parameters();
  mlp.flat->parameters()[15] = 42;
  EXPECT_EQ(parameters["layers.1.weight"].flatten()[0].item<float>(), 42.0f);
  torch::NoGradGuard no_grad;
  parameters["head.bias"].fill_(7);
  EXPECT_EQ(mlp.flat->parameters().back(), 7.0f);
  TALLY_ASSERT_OK(mlp.model->Initialise(2));
  EXPECT_EQ(mlp.flat->parameters().back(), 0.0f);
}

TEST(FlatParameters, BatchNormUpdatesItsStatisticsInTheArray) {
  const Linked resnet = Make("resnet_cifar", kResnet);
  const uint64_t first = resnet.flat->layout().trained_size();
  const auto before = Copy(resnet.flat->parameters());
  TALLY_ASSERT_OK(resnet.model->AccumulateGradients(SomeBatch(*resnet.model, 4)));
  const auto after = Copy(resnet.flat->parameters());
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + first, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + first, before.end(), after.begin() + first));
  const auto evaluated_before = Copy(resnet.flat->parameters());
  TALLY_ASSERT_OK(resnet.model->Evaluate(SomeBatch(*resnet.model, 4)));
  EXPECT_EQ(evaluated_before, Copy(resnet.flat->parameters()));
}

TEST(FlatParameters, GradientsMatchTheSlopeOfTheLoss) {
  const Linked mlp = Make("mlp", kMlp);
  const Batch batch = SomeBatch(*mlp.model, 6);
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  const auto loss = [&] { return mlp.model->Evaluate(batch)->loss_sum / 6; };
  for (size_t i = 0; i < mlp.flat->parameters().size(); ++i) {
    constexpr float kStep = 1e-2f;
    float& x = mlp.flat->parameters()[i];
    const float at = x;
    x = at + kStep;
    const double up = loss();
    x = at - kStep;
    const double down = loss();
    x = at;
    EXPECT_NEAR(mlp.flat->gradients()[i], (up - down) / (2 * kStep), 2e-4) << i;
  }
}

TEST(FlatParameters, GradientsAccumulateUntilZeroed) {
  const Linked mlp = Make("mlp", kMlp);
  const Batch batch = SomeBatch(*mlp.model, 6);
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  const auto once = Copy(mlp.flat->gradients());
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_FLOAT_EQ(mlp.flat->gradients()[i], 2 * once[i]);
  mlp.flat->ZeroGradients();
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  EXPECT_EQ(Copy(mlp.flat->gradients()), once);
}

TEST(FlatParameters, AGradientThatLeftTheArrayComesBack) {
  const Linked mlp = Make("mlp", kMlp);
  const Batch batch = SomeBatch(*mlp.model, 6);
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  const auto expected = Copy(mlp.flat->gradients());
  mlp.flat->ZeroGradients();
  for (torch::Tensor& p : mlp.model->architecture().module().parameters()) {
    p.mutable_grad() = torch::Tensor();  // as zero_grad(set_to_none) does
  }
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  EXPECT_EQ(Copy(mlp.flat->gradients()), expected);
  mlp.flat->ZeroGradients();
  for (const torch::Tensor& p : mlp.model->architecture().module().parameters()) {
    EXPECT_EQ(p.grad().abs().sum().item<float>(), 0.0f);  // linked again
  }
}

TEST(FlatParameters, BlocksAreReportedInBackwardOrderOnceAPass) {
  for (const auto& [architecture, config] : {std::pair{"mlp", kMlp}, {"resnet_cifar", kResnet}}) {
    const Linked linked = Make(architecture, config);
    std::vector<uint32_t> reported;
    linked.flat->SetGradientReadyCallback([&](uint32_t block) { reported.push_back(block); });
    std::vector<uint32_t> expected;
    for (uint32_t b = linked.flat->layout().trained_blocks(); b-- > 0;) expected.push_back(b);
    for (int pass = 0; pass < 2; ++pass) {
      reported.clear();
      TALLY_ASSERT_OK(linked.model->AccumulateGradients(SomeBatch(*linked.model, 4)));
      TALLY_ASSERT_OK(linked.flat->FinishBackward());
      EXPECT_EQ(reported, expected) << architecture;
    }
  }
}

// The overlap's foundation: the head can leave while the first layer still computes.
TEST(FlatParameters, TheHeadIsReportedWithItsGradientBeforeTheFirstLayerIsComputed) {
  const Linked mlp = Make("mlp", kMlp);
  const LayoutBlock& head = mlp.flat->layout().blocks().back();
  std::vector<std::string> events;
  std::vector<float> head_gradient;
  mlp.flat->SetGradientReadyCallback([&](uint32_t block) {
    events.push_back(absl::StrCat("ready ", block));
    if (block != 2) return;
    head_gradient = Copy(mlp.flat->gradients().subspan(head.first, head.count));
  });
  torch::Tensor first = mlp.model->architecture().module().named_parameters()["layers.0.weight"];
  first.register_hook([&](const torch::Tensor&) { events.push_back("first layer computed"); });
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(SomeBatch(*mlp.model, 4)));
  events.push_back("backward returned");
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  EXPECT_THAT(events, ElementsAre("ready 2", "ready 1", "first layer computed", "ready 0",
                                  "backward returned"));
  EXPECT_EQ(head_gradient, Copy(mlp.flat->gradients().subspan(head.first, head.count)));
}

TEST(FlatParameters, BlocksWithoutAGradientAreReportedAtTheEnd) {
  const Linked mlp = Make("mlp", kMlp);
  mlp.model->architecture().module().named_parameters()["layers.0.bias"].set_requires_grad(false);
  std::vector<uint32_t> reported;
  mlp.flat->SetGradientReadyCallback([&](uint32_t block) { reported.push_back(block); });
  TALLY_ASSERT_OK(mlp.model->AccumulateGradients(SomeBatch(*mlp.model, 4)));
  EXPECT_THAT(reported, ElementsAre(2, 1));
  TALLY_ASSERT_OK(mlp.flat->FinishBackward());
  EXPECT_THAT(reported, ElementsAre(2, 1, 0));
}

TEST(FlatParameters, TheModelOutlivesItsViews) {
  Linked mlp = Make("mlp", kMlp);
  mlp.flat->SetGradientReadyCallback([](uint32_t) { FAIL() << "called after its end"; });
  mlp.flat.reset();
  TALLY_EXPECT_OK(mlp.model->AccumulateGradients(SomeBatch(*mlp.model, 4)));
}

// A checkpoint with tensors of the given shapes, all elements `value`.
using Shapes = std::vector<std::pair<std::string, std::vector<uint64_t>>>;

std::string WriteCheckpoint(const Folder& folder, const Shapes& shapes, float value,
                            bool with_counter = false) {
  std::vector<TensorInfo> tensors;
  uint64_t elements = 0;
  for (const auto& [name, shape] : shapes) {
    tensors.push_back({name, DType::kF32, shape});
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    elements += count;
  }
  if (with_counter) tensors.push_back({"bn.num_batches_tracked", DType::kI64, {}});
  const std::string path = folder.path() + "/model.safetensors";
  auto writer = SafetensorsWriter::Create(path, tensors);
  EXPECT_THAT(writer, IsOk());
  EXPECT_THAT((*writer)->Append(std::vector<float>(elements, value)), IsOk());
  if (with_counter) {
    EXPECT_THAT((*writer)->Append(absl::string_view("\3\0\0\0\0\0\0\0", 8)), IsOk());
  }
  EXPECT_THAT((*writer)->Finish(), IsOk());
  return path;
}

const Shapes& MlpShapes() {
  static const Shapes shapes = {{"layers.0.weight", {3, 4}}, {"layers.0.bias", {3}},
                                {"layers.1.weight", {2, 3}}, {"layers.1.bias", {2}},
                                {"head.weight", {2, 2}},     {"head.bias", {2}}};
  return shapes;
}

absl::Status LoadFrom(FlatParameters& flat, const std::string& path, LoadOptions options = {}) {
  auto reader = CheckpointReader::Open(path);
  if (!reader.ok()) return reader.status();
  return flat.Load(**reader, options);
}

TEST(FlatParametersLoad, MatchesByNameInAnyOrderAndLeavesCountersOut) {
  const Linked mlp = Make("mlp", kMlp);
  Folder folder;
  Shapes shapes = MlpShapes();
  std::reverse(shapes.begin(), shapes.end());
  TALLY_ASSERT_OK(LoadFrom(*mlp.flat, WriteCheckpoint(folder, shapes, 0.5f, true)));
  EXPECT_EQ(Copy(mlp.flat->parameters()), std::vector<float>(29, 0.5f));
}

TEST(FlatParametersLoad, AllProblemsAtOnceAndNothingChanged) {
  const Linked mlp = Make("mlp", kMlp);
  const auto before = Copy(mlp.flat->parameters());
  Folder folder;
  Shapes shapes = MlpShapes();
  shapes[0].second = {4, 3};
  shapes[3].first = "module.layers.1.bias";
  EXPECT_THAT(
      LoadFrom(*mlp.flat, WriteCheckpoint(folder, shapes, 0.5f)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(folder.path()),
                     HasSubstr("layers.0.weight: expected floating-point [3, 4], found F32 [4, 3]"),
                     HasSubstr("layers.1.bias: missing"),
                     HasSubstr("module.layers.1.bias: unexpected"))));
  EXPECT_EQ(Copy(mlp.flat->parameters()), before);
}

TEST(FlatParametersLoad, AnotherHeadAloneIsSaidWithTheRemedy) {
  const Linked mlp = Make("mlp", kMlp);
  Folder folder;
  Shapes shapes = MlpShapes();
  shapes[4].second = {77, 2};
  EXPECT_THAT(LoadFrom(*mlp.flat, WriteCheckpoint(folder, shapes, 0.5f)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("head.weight: expected floating-point [2, 2]"),
                             HasSubstr("reset_head: true"))));
}

TEST(FlatParametersLoad, SkipHeadKeepsTheHead) {
  const Linked mlp = Make("mlp", kMlp);
  const auto before = Copy(mlp.flat->parameters());
  Folder folder;
  Shapes shapes = MlpShapes();
  shapes[4].second = {77, 2};  // another set of classes
  shapes.pop_back();
  TALLY_ASSERT_OK(LoadFrom(*mlp.flat, WriteCheckpoint(folder, shapes, 0.5f), {.skip_head = true}));
  const auto after = Copy(mlp.flat->parameters());
  EXPECT_EQ(after[22], 0.5f);
  EXPECT_TRUE(std::equal(after.begin() + 23, after.end(), before.begin() + 23));
}

}  // namespace
}  // namespace tally
