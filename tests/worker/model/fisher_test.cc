// Squared gradients of the registered models.
#include "worker/model/fisher/fisher.h"

#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/worker/model/fisher_reference.h"
#include "tests/worker/model/model_batch.h"
#include "worker/flat_parameters.h"
#include "worker/model/batch_tensor.h"
#include "worker/model/layers/layers.h"
#include "worker/model/registry.h"

namespace tally {
namespace {

using ::tally::testing::ExpectNear;
using ::tally::testing::IsOk;
using ::tally::testing::RandomBatch;
using ::tally::testing::ReferenceFisher;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Norms start as plain ones and zeros, biases as zeros: make all of them matter.
void Disturb(Architecture& architecture) {
  torch::NoGradGuard no_grad;
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(11);
  const auto noise = [&](const torch::Tensor& of) { return torch::rand(of.sizes(), generator); };
  for (torch::Tensor& tensor : architecture.module().parameters()) {
    tensor.add_(noise(tensor) - 0.5, 0.2);
  }
  for (auto& [name, tensor] : FloatBuffersOf(architecture)) tensor.add_(noise(tensor), 0.5);
}

std::unique_ptr<Model> Make(const ArchitectureEntry& entry) {
  auto model = MakeModel(entry.name, entry.sample_config);
  EXPECT_THAT(model, IsOk());
  EXPECT_THAT((*model)->Initialise(1), IsOk());
  Disturb((*model)->architecture());
  return *std::move(model);
}

std::unique_ptr<Model> Make(absl::string_view name) {
  for (const ArchitectureEntry& entry : ArchitectureTable()) {
    if (entry.name == name) return Make(entry);
  }
  return nullptr;
}

size_t SizeOf(Model& model) {
  size_t size = 0;
  for (const torch::Tensor& parameter : model.architecture().module().parameters()) {
    size += static_cast<size_t>(parameter.numel());
  }
  return size;
}

std::vector<float> Fisher(Model& model, const Batch& batch, FisherKind kind) {
  std::vector<float> sums(SizeOf(model));
  EXPECT_THAT(model.AccumulateFisher(batch, kind, absl::MakeSpan(sums)), IsOk());
  return sums;
}

FisherBatch Tensors(Model& model, const Batch& batch, FisherKind kind) {
  return {InputTensor(batch, model.architecture().input()), LabelTensor(batch), kind};
}

// Of a model that is of no use afterwards.
std::vector<double> Reference(Model& model, const Batch& batch, FisherKind kind) {
  const FisherBatch tensors = Tensors(model, batch, kind);
  return ReferenceFisher(model.architecture(), tensors.input, tensors.labels, kind);
}

Batch Part(const Batch& batch, uint32_t first, uint32_t count) {
  const auto bytes = static_cast<std::ptrdiff_t>(batch.format.bytes());
  Batch part{batch.format, {}, {}};
  part.elements.assign(batch.elements.begin() + first * bytes,
                       batch.elements.begin() + (first + count) * bytes);
  part.labels.assign(batch.labels.begin() + first, batch.labels.begin() + first + count);
  return part;
}

class Fishers : public ::testing::TestWithParam<std::tuple<ArchitectureEntry, FisherKind>> {
 protected:
  std::unique_ptr<Model> MakeIt() { return Make(std::get<0>(GetParam())); }
  FisherKind kind() const { return std::get<1>(GetParam()); }
};

TEST_P(Fishers, OfABatchAreTheSumOfEachExamples) {
  auto model = MakeIt();
  const Batch batch = RandomBatch(*model, 7, 3);
  const std::vector<float> found = Fisher(*model, batch, kind());
  ExpectNear(found, Reference(*model, batch, kind()));
}

TEST_P(Fishers, OfOneExample) {
  auto model = MakeIt();
  const Batch batch = RandomBatch(*model, 1, 4);
  const std::vector<float> found = Fisher(*model, batch, kind());
  ExpectNear(found, Reference(*model, batch, kind()));
}

TEST_P(Fishers, OneByOneAreTheSame) {
  auto model = MakeIt();
  model->architecture().module().eval();
  const Batch batch = RandomBatch(*model, 5, 5);
  std::vector<float> found(SizeOf(*model));
  TALLY_ASSERT_OK(AddFisherOneByOne(model->architecture(), Tensors(*model, batch, kind()),
                                    absl::MakeSpan(found)));
  ExpectNear(found, Reference(*model, batch, kind()));
}

// Class Model would go the slow way without a failure.
TEST_P(Fishers, EveryArchitectureIsBatched) {
  auto model = MakeIt();
  model->architecture().module().eval();
  std::vector<float> sums(SizeOf(*model));
  TALLY_EXPECT_OK(AddFisherBatched(model->architecture(),
                                   Tensors(*model, RandomBatch(*model, 3, 5), kind()),
                                   absl::MakeSpan(sums)));
}

TEST_P(Fishers, AddUpOverBatches) {
  auto model = MakeIt();
  const Batch all = RandomBatch(*model, 6, 6);
  std::vector<float> sums(SizeOf(*model));
  for (const Batch& part : {Part(all, 0, 2), Part(all, 2, 4)}) {
    TALLY_ASSERT_OK(model->AccumulateFisher(part, kind(), absl::MakeSpan(sums)));
  }
  ExpectNear(sums, Reference(*model, all, kind()));
}

TEST_P(Fishers, OfTheSameBatchAreTheSameBits) {
  auto model = MakeIt();
  const Batch batch = RandomBatch(*model, 6, 6);
  EXPECT_EQ(Fisher(*model, batch, kind()), Fisher(*model, batch, kind()));
}

// Every second parameter tensor: a frozen weight beside a trained bias and the other way round.
TEST_P(Fishers, OfFrozenParametersAreNotTouched) {
  for (const size_t odd : {0, 1}) {
    auto model = MakeIt();
    auto blocks = BlocksOf(model->architecture());
    TALLY_ASSERT_OK(blocks);
    std::vector<float> sums;
    size_t index = 0;
    for (auto& block : *blocks) {
      for (auto& [name, tensor] : block.parameters) {
        const bool frozen = index++ % 2 == odd;
        tensor.set_requires_grad(!frozen);
        sums.insert(sums.end(), static_cast<size_t>(tensor.numel()), frozen ? 2.5f : 0);
      }
    }
    const std::vector<float> before = sums;
    const Batch batch = RandomBatch(*model, 4, 8);
    TALLY_ASSERT_OK(model->AccumulateFisher(batch, kind(), absl::MakeSpan(sums)));
    for (size_t i = 0; i < sums.size(); ++i) {
      if (before[i] == 0) continue;
      ASSERT_EQ(sums[i], 2.5f) << i;
      sums[i] = 0;
    }
    ExpectNear(sums, Reference(*model, batch, kind()));
  }
}

TEST_P(Fishers, OfTheHeadAlone) {
  auto model = MakeIt();
  auto blocks = BlocksOf(model->architecture());
  TALLY_ASSERT_OK(blocks);
  for (size_t b = 0; b + 1 < blocks->size(); ++b) {
    for (auto& [name, tensor] : (*blocks)[b].parameters) tensor.set_requires_grad(false);
  }
  const Batch batch = RandomBatch(*model, 4, 9);
  const std::vector<float> found = Fisher(*model, batch, kind());
  ExpectNear(found, Reference(*model, batch, kind()));
}

TEST_P(Fishers, OfAModelFrozenAsAWholeAreNone) {
  auto model = MakeIt();
  for (torch::Tensor& parameter : model->architecture().module().parameters()) {
    parameter.set_requires_grad(false);
  }
  const std::vector<float> found = Fisher(*model, RandomBatch(*model, 2, 1), kind());
  EXPECT_EQ(found, std::vector<float>(found.size()));
}

TEST_P(Fishers, LeaveParametersBuffersAndGradientsAlone) {
  auto model = MakeIt();
  TALLY_ASSERT_OK_AND_ASSIGN(auto flat, FlatParameters::Create(*model));
  TALLY_ASSERT_OK(model->AccumulateGradients(RandomBatch(*model, 3, 1)));
  TALLY_ASSERT_OK(flat->FinishBackward());
  int reported = 0;
  flat->SetGradientReadyCallback([&](uint32_t) { ++reported; });
  const auto parameters = std::vector<float>(flat->parameters().begin(), flat->parameters().end());
  const auto gradients = std::vector<float>(flat->gradients().begin(), flat->gradients().end());
  std::vector<torch::Tensor> buffers;  // integers, too
  for (const auto& buffer : model->architecture().module().buffers()) {
    buffers.push_back(buffer.clone());
  }
  Fisher(*model, RandomBatch(*model, 5, 2), kind());
  const auto same = [](const std::vector<float>& before, absl::Span<const float> now) {
    return std::memcmp(before.data(), now.data(), before.size() * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(parameters, flat->parameters()));
  EXPECT_TRUE(same(gradients, flat->gradients()));
  EXPECT_EQ(reported, 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(model->architecture().module().buffers()[i].equal(buffers[i]));
  }
}

TEST_P(Fishers, LeaveTheNextTrainingStepAsItWas) {
  auto model = MakeIt();
  auto other = MakeIt();
  Fisher(*model, RandomBatch(*model, 5, 2), kind());
  const Batch batch = RandomBatch(*model, 4, 3);
  for (Model* trained : {model.get(), other.get()}) {
    TALLY_ASSERT_OK(trained->AccumulateGradients(batch));
  }
  const auto ours = model->architecture().module().parameters();
  const auto theirs = other->architecture().module().parameters();
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].grad().equal(theirs[i].grad())) << i;
}

TEST_P(Fishers, GiveEachModuleItsModeBack) {
  auto model = MakeIt();
  torch::nn::Module& module = model->architecture().module();
  module.train();
  module.named_children().begin()->value()->eval();  // as a frozen block is
  std::vector<bool> before;
  for (const auto& part : module.modules()) before.push_back(part->is_training());
  Fisher(*model, RandomBatch(*model, 2, 2), kind());
  std::vector<bool> after;
  for (const auto& part : module.modules()) after.push_back(part->is_training());
  EXPECT_EQ(after, before);
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, Fishers,
    ::testing::Combine(::testing::ValuesIn(ArchitectureTable().begin(), ArchitectureTable().end()),
                       ::testing::Values(FisherKind::kEmpirical, FisherKind::kExpected)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) +
             (std::get<1>(info.param) == FisherKind::kExpected ? "Expected" : "Empirical");
    });

// The same example with every label as often as the model expects it has a gradient of about zero.
TEST(Fisher, IsNotTheSquareOfTheBatchsGradient) {
  auto model = Make("mlp");
  Batch batch = RandomBatch(*model, 2, 3);
  std::copy_n(batch.elements.begin(), batch.format.bytes(),
              batch.elements.begin() + static_cast<std::ptrdiff_t>(batch.format.bytes()));
  batch.labels = {0, 1};
  const std::vector<float> fisher = Fisher(*model, batch, FisherKind::kEmpirical);
  TALLY_ASSERT_OK_AND_ASSIGN(auto flat, FlatParameters::Create(*model));
  TALLY_ASSERT_OK(model->AccumulateGradients(batch));
  double ours = 0;
  double square_of_sum = 0;
  for (size_t i = 0; i < fisher.size(); ++i) {
    ours += fisher[i];
    square_of_sum += std::pow(2.0 * flat->gradients()[i], 2);
  }
  EXPECT_GT(ours, 2 * square_of_sum);
}

// A sure model's expected and empirical values are about the same, unsure ones' differ.
TEST(Fisher, ExpectedDoesNotDependOnLabels) {
  auto model = Make("mlp");
  Batch batch = RandomBatch(*model, 3, 3);
  const std::vector<float> expected = Fisher(*model, batch, FisherKind::kExpected);
  const std::vector<float> empirical = Fisher(*model, batch, FisherKind::kEmpirical);
  batch.labels = {2, 2, 0};
  EXPECT_EQ(Fisher(*model, batch, FisherKind::kExpected), expected);
  EXPECT_NE(Fisher(*model, batch, FisherKind::kEmpirical), empirical);
}

Batch FloatBatch(const Model& model, const std::vector<float>& values) {
  Batch batch;
  batch.format = {model.input_shape(), ElementType::kFloat32};
  batch.elements.resize(values.size() * sizeof(float));
  std::memcpy(batch.elements.data(), values.data(), batch.elements.size());
  batch.labels.resize(values.size() / batch.format.elements());
  return batch;
}

TEST(Fisher, InputThatIsNotFiniteIsRefusedByExample) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    auto model = Make("mlp");
    std::vector<float> values(3 * 12, 0.5f);
    values[2 * 12 + 5] = bad;
    const Batch batch = FloatBatch(*model, values);
    std::vector<float> sums(SizeOf(*model));
    EXPECT_THAT(model->AccumulateFisher(batch, FisherKind::kEmpirical, absl::MakeSpan(sums)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("finite input"), HasSubstr("example 2"))));
    EXPECT_EQ(sums, std::vector<float>(sums.size()));
  }
}

TEST(Fisher, LogitsThatAreNotFiniteAreRefused) {
  auto model = Make("mlp");
  {
    torch::NoGradGuard no_grad;
    model->architecture().module().parameters()[0][0].fill_(NAN);
  }
  std::vector<float> sums(SizeOf(*model));
  EXPECT_THAT(model->AccumulateFisher(RandomBatch(*model, 2, 1), FisherKind::kExpected,
                                      absl::MakeSpan(sums)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("finite logits"), HasSubstr("example 0"))));
}

TEST(Fisher, SumsThatOverflowAreRefusedByParameter) {
  auto model = Make("mlp");
  std::vector<float> sums(SizeOf(*model));
  sums[3] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(model->AccumulateFisher(RandomBatch(*model, 2, 1), FisherKind::kExpected,
                                      absl::MakeSpan(sums)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("layers.0.weight")));
}

TEST(Fisher, RoomForAnotherNumberOfParametersIsRefused) {
  auto model = Make("mlp");
  const size_t size = SizeOf(*model);
  for (const size_t wrong : {size - 1, size + 1, size_t{0}}) {
    std::vector<float> sums(wrong);
    EXPECT_THAT(model->AccumulateFisher(RandomBatch(*model, 2, 1), FisherKind::kEmpirical,
                                        absl::MakeSpan(sums)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected room for")));
  }
}

TEST(Fisher, ABatchThatDoesNotFitIsRefused) {
  auto model = Make("mlp");
  Batch batch = RandomBatch(*model, 2, 1);
  batch.labels[1] = 9;
  std::vector<float> sums(SizeOf(*model));
  EXPECT_THAT(model->AccumulateFisher(batch, FisherKind::kEmpirical, absl::MakeSpan(sums)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("labels below 3")));
}

// Lines that were logged while it lived.
class LogLines {
 public:
  LogLines() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  }
  ~LogLines() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(Fisher, ALayerThatRecordsNothingMeansOneExampleAtATimeAndOneLineInTheLog) {
  auto model = Make("resnet_cifar");
  auto layers = model->architecture().module().named_modules();
  layers["layer1.0.conv1"]->as<torch::nn::Conv2d>()->options.padding_mode(torch::kReflect);
  const Batch batch = RandomBatch(*model, 3, 4);
  std::vector<float> sums;
  const LogLines lines;
  for (int i = 0; i < 2; ++i) sums = Fisher(*model, batch, FisherKind::kEmpirical);
  const std::string expected = "one example at a time, which is slow: layer1.0.conv1.weight";
  EXPECT_THAT(lines.text(), HasSubstr(expected));
  EXPECT_EQ(lines.text().find(expected), lines.text().rfind(expected));
  ExpectNear(sums, Reference(*model, batch, FisherKind::kEmpirical));
}

}  // namespace
}  // namespace tally
