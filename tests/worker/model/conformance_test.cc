// What every registered architecture must do; a new one is picked up by itself.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/checkpoint/safetensors_writer.h"
#include "gtest/gtest.h"
#include "tests/worker/model/model_batch.h"
#include "worker/flat_parameters.h"
#include "worker/model/architecture.h"
#include "worker/model/batch_tensor.h"
#include "worker/model/registry.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::RandomBatch;
using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

class Conformance : public ::testing::TestWithParam<ArchitectureEntry> {
 protected:
  std::unique_ptr<Model> Make(uint64_t seed = 1) {
    auto model = MakeModel(GetParam().name, GetParam().sample_config);
    EXPECT_THAT(model, IsOk());
    EXPECT_THAT((*model)->Initialise(seed), IsOk());
    return *std::move(model);
  }
  static std::unique_ptr<FlatParameters> Flatten(Model& model) {
    auto flat = FlatParameters::Create(model);
    EXPECT_THAT(flat, IsOk());
    return *std::move(flat);
  }
  std::vector<float> Initial(uint64_t seed) {
    auto model = Make(seed);
    auto flat = Flatten(*model);
    return {flat->parameters().begin(), flat->parameters().end()};
  }
};

TEST_P(Conformance, ForwardGivesFiniteLogitsAClass) {
  auto model = Make();
  Architecture& architecture = model->architecture();
  torch::NoGradGuard no_grad;
  const torch::Tensor logits =
      architecture.Forward(InputTensor(RandomBatch(*model, 5, 1), architecture.input()));
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({5, static_cast<int64_t>(model->classes())}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

// After n batches the statistics are the mean of theirs, whatever was there before; nothing else moves.
TEST_P(Conformance, StatisticsComputedAnewAreTheMeanOfTheBatches) {
  auto model = Make();
  auto flat = Flatten(*model);
  const size_t trained = flat->layout().trained_size();
  const std::vector<float> before(flat->parameters().begin(), flat->parameters().end());
  const auto statistics_of = [&](const std::vector<uint64_t>& seeds) {
    for (size_t i = 0; i < seeds.size(); ++i) {
      EXPECT_THAT(model->UpdateStatistics(RandomBatch(*model, 6, seeds[i]), static_cast<uint32_t>(i)), IsOk());
    }
    return std::vector<float>(flat->parameters().begin() + static_cast<long>(trained), flat->parameters().end());
  };
  const std::vector<float> a = statistics_of({3}), b = statistics_of({4}), both = statistics_of({3, 4});
  EXPECT_EQ(a != b, flat->layout().has_buffers());
  EXPECT_EQ(statistics_of({3}), a);
  for (size_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(both[i], (a[i] + b[i]) / 2, 1e-5 * (1 + std::fabs(a[i]) + std::fabs(b[i])));
  }
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<long>(trained), flat->parameters().begin()));
}

TEST_P(Conformance, EvaluationOfAnExampleDoesNotDependOnItsBatch) {
  auto model = Make();
  Architecture& architecture = model->architecture();
  architecture.module().eval();
  torch::NoGradGuard no_grad;
  const torch::Tensor input = InputTensor(RandomBatch(*model, 4, 1), architecture.input());
  const torch::Tensor all = architecture.Forward(input);
  const torch::Tensor one = architecture.Forward(input.slice(0, 2, 3));
  EXPECT_LT((all[2] - one[0]).abs().max().item<float>(), 1e-5);
}

TEST_P(Conformance, EveryParameterIsInOneBlockAndTheHeadIsLast) {
  auto model = Make();
  auto flat = Flatten(*model);
  std::set<std::string> in_layout;
  uint64_t next = 0;
  uint32_t block = 0;
  for (const LayoutTensor& tensor : flat->layout().tensors()) {
    EXPECT_TRUE(in_layout.insert(tensor.name).second) << tensor.name;
    EXPECT_EQ(tensor.first, next);
    EXPECT_GE(tensor.block, block);  // blocks are contiguous
    block = tensor.block;
    next += tensor.count;
  }
  for (const auto& parameter : model->architecture().module().named_parameters()) {
    EXPECT_EQ(in_layout.count(parameter.key()), 1u) << parameter.key();
  }
  EXPECT_EQ(flat->layout().blocks()[flat->layout().trained_blocks() - 1].name, "head");
}

TEST_P(Conformance, TheModulesTensorsAreViewsOfTheArray) {
  auto model = Make();
  auto flat = Flatten(*model);
  auto parameters = model->architecture().module().named_parameters();
  auto buffers = model->architecture().module().named_buffers();
  for (const LayoutTensor& place : flat->layout().tensors()) {
    const torch::Tensor* tensor = parameters.find(place.name);
    if (tensor == nullptr) tensor = buffers.find(place.name);
    ASSERT_NE(tensor, nullptr) << place.name;
    EXPECT_EQ(tensor->data_ptr<float>(), flat->parameters().data() + place.first) << place.name;
    EXPECT_TRUE(tensor->is_contiguous());
    if (place.block == flat->layout().trained_blocks()) continue;
    EXPECT_EQ(tensor->grad().data_ptr<float>(), flat->gradients().data() + place.first);
  }
}

TEST_P(Conformance, TheGradientReachesEveryParameter) {
  auto model = Make();
  auto flat = Flatten(*model);
  TALLY_ASSERT_OK(model->AccumulateGradients(RandomBatch(*model, 8, 2)));
  TALLY_ASSERT_OK(flat->FinishBackward());
  for (const LayoutTensor& place : flat->layout().tensors()) {
    if (place.block == flat->layout().trained_blocks()) break;
    const auto gradient = flat->gradients().subspan(place.first, place.count);
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float g) { return g != 0; }))
        << place.name;
  }
}

TEST_P(Conformance, AStepDownTheGradientLowersTheLoss) {
  auto model = Make();
  auto flat = Flatten(*model);
  const Batch batch = RandomBatch(*model, 8, 3);
  TALLY_ASSERT_OK_AND_ASSIGN(const Score before, model->AccumulateGradients(batch));
  TALLY_ASSERT_OK(flat->FinishBackward());
  for (size_t i = 0; i < flat->gradients().size(); ++i) {
    flat->parameters()[i] -= 1e-3f * flat->gradients()[i];
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const Score after, model->AccumulateGradients(batch));
  EXPECT_LT(after.loss_sum, before.loss_sum);
}

TEST_P(Conformance, InitialisationIsAFunctionOfTheSeed) {
  EXPECT_EQ(Initial(7), Initial(7));
  EXPECT_NE(Initial(7), Initial(8));
}

TEST_P(Conformance, ResetHeadTouchesTheHeadAlone) {
  auto model = Make(1);
  auto flat = Flatten(*model);
  TALLY_ASSERT_OK(model->ResetHead(2));
  const auto seed1 = Initial(1);
  const auto seed2 = Initial(2);
  const Layout& layout = flat->layout();
  const LayoutBlock& head = layout.blocks()[layout.trained_blocks() - 1];
  for (uint64_t i = 0; i < layout.size(); ++i) {
    const bool in_head = i >= head.first && i < head.first + head.count;
    ASSERT_EQ(flat->parameters()[i], in_head ? seed2[i] : seed1[i]) << i;
  }
}

TEST_P(Conformance, SavedAndLoadedItIsTheSame) {
  auto model = Make(1);
  auto flat = Flatten(*model);
  const std::string path = ::testing::TempDir() + "/tally_" + GetParam().name + ".safetensors";
  std::vector<TensorInfo> tensors;
  for (const LayoutTensor& place : flat->layout().tensors()) {
    tensors.push_back({place.name, DType::kF32, place.shape});
  }
  TALLY_ASSERT_OK_AND_ASSIGN(auto writer, SafetensorsWriter::Create(path, tensors));
  TALLY_ASSERT_OK(writer->Append(absl::Span<const float>(flat->parameters())));
  TALLY_ASSERT_OK(writer->Finish());
  auto other = Make(2);
  auto other_flat = Flatten(*other);
  TALLY_ASSERT_OK_AND_ASSIGN(auto reader, CheckpointReader::Open(path));
  TALLY_ASSERT_OK(other_flat->Load(*reader));
  EXPECT_EQ(flat->layout().digest(), other_flat->layout().digest());
  EXPECT_TRUE(std::equal(flat->parameters().begin(), flat->parameters().end(),
                         other_flat->parameters().begin()));
  EXPECT_EQ(remove(path.c_str()), 0);
}

TEST_P(Conformance, ScoresAddUpOverBatches) {
  auto model = Make();
  const Batch all = RandomBatch(*model, 6, 4);
  TALLY_ASSERT_OK_AND_ASSIGN(const Score whole, model->Evaluate(all));
  Score sum;
  for (int half = 0; half < 2; ++half) {
    Batch part{all.format, {}, {}};
    const size_t bytes = 3 * all.format.bytes();
    part.elements.assign(all.elements.begin() + half * bytes,
                         all.elements.begin() + (half + 1) * bytes);
    part.labels.assign(all.labels.begin() + half * 3, all.labels.begin() + (half + 1) * 3);
    TALLY_ASSERT_OK_AND_ASSIGN(const Score score, model->Evaluate(part));
    sum += score;
  }
  EXPECT_EQ(sum.count, whole.count);
  EXPECT_EQ(sum.correct, whole.correct);
  EXPECT_NEAR(sum.loss_sum, whole.loss_sum, 1e-4);
}

TEST_P(Conformance, DataThatDoesNotFitIsRefused) {
  auto model = Make();
  DataInfo data;
  data.example.shape = model->input_shape();
  data.classes = model->classes();
  TALLY_EXPECT_OK(model->CheckFits(data));
  data.classes = model->classes() + 1;
  EXPECT_THAT(model->CheckFits(data),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected labels below its 3 classes, found 3")));
  data.classes = model->classes();
  data.example.shape.back() += 1;
  EXPECT_THAT(model->CheckFits(data), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("expected examples of shape")));
}

TEST_P(Conformance, BatchesThatDoNotFitAreRefused) {
  auto model = Make();
  Batch batch = RandomBatch(*model, 2, 1);
  batch.labels[1] = model->classes();
  EXPECT_THAT(model->AccumulateGradients(batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("labels below 3, found 3")));
  batch.labels.clear();
  EXPECT_THAT(model->Evaluate(batch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 examples")));
}

INSTANTIATE_TEST_SUITE_P(Architectures, Conformance,
                         ::testing::ValuesIn(ArchitectureTable().begin(),
                                             ArchitectureTable().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tally
