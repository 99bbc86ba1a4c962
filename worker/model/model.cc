#include "worker/model/model.h"

#include <torch/torch.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "spdlog/spdlog.h"
#include "worker/model/architecture.h"
#include "worker/model/batch_tensor.h"
#include "worker/model/cumulative_statistics.h"
#include "worker/model/evaluation_mode.h"
#include "worker/model/fisher/fisher.h"
#include "worker/model/guard.h"
#include "worker/model/initialise.h"
#include "worker/model/registry.h"

namespace tally {
namespace {

// Whether examples of `found` may enter where `expected` is wanted.
bool ShapeFits(const InputSpec& expected, const ExampleFormat& found) {
  if (expected.shape == found.shape) return true;
  return expected.shape.size() == 1 && expected.shape[0] == found.elements();
}

absl::Status CheckShape(const InputSpec& input, const ExampleFormat& found) {
  if (ShapeFits(input, found)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "expected examples of shape ", ShapeText(input.shape), ", found ", Describe(found)));
}

absl::StatusOr<Score> ScoreOf(const torch::Tensor& logits, const torch::Tensor& labels,
                              const torch::Tensor& loss_sum) {
  Score score;
  score.loss_sum = loss_sum.item<double>();
  score.correct = static_cast<uint64_t>(logits.argmax(1).eq(labels).sum().item<int64_t>());
  score.count = static_cast<uint64_t>(labels.size(0));
  return score;
}

torch::Tensor LossSum(const torch::Tensor& logits, const torch::Tensor& labels) {
  namespace F = torch::nn::functional;
  return F::cross_entropy(logits, labels, F::CrossEntropyFuncOptions().reduction(torch::kSum));
}

// A config.json with the key by which others see what the model is. The text is that of an object.
std::string WithModelType(absl::string_view text, const std::string& name) {
  if (absl::StrContains(text, "\"model_type\"")) return std::string(text);
  const size_t inside = text.find('{') + 1;
  const bool empty = text.substr(inside).find(':') == text.npos;
  return absl::StrCat(text.substr(0, inside), "\"model_type\": \"", name, empty ? "\"" : "\", ",
                      text.substr(inside));
}

}  // namespace

Model::Model(std::string name, std::string config_json, std::unique_ptr<Architecture> architecture)
    : name_(std::move(name)),
      config_json_(std::move(config_json)),
      architecture_(std::move(architecture)) {}

Model::~Model() = default;

const std::vector<uint64_t>& Model::input_shape() const { return architecture_->input().shape; }

uint32_t Model::classes() const { return architecture_->input().classes; }

absl::Status Model::CheckFits(const DataInfo& data) const {
  const std::string context = absl::StrCat("model ", name_);
  TALLY_RETURN_IF_ERROR(WithContext(CheckShape(architecture_->input(), data.example), context));
  if (data.classes <= classes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(context, ": expected labels below its ", classes(),
                                                 " classes, found ", data.classes - 1));
}

absl::Status Model::CheckBatch(const Batch& batch) const {
  TALLY_RETURN_IF_ERROR(CheckShape(architecture_->input(), batch.format));
  if (batch.size() == 0 || batch.elements.size() != batch.size() * batch.format.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("batch: expected bytes for ", batch.size(),
                                                   " examples, found ", batch.elements.size()));
  }
  for (const uint32_t label : batch.labels) {
    if (label >= classes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch: expected labels below ", classes(), ", found ", label));
    }
  }
  return absl::OkStatus();
}

absl::Status Model::Initialise(uint64_t seed) {
  return GuardTorch("initialise", [&] { return InitialiseAll(*architecture_, seed); });
}

absl::Status Model::ResetHead(uint64_t seed) {
  return GuardTorch("reset head", [&] { return InitialiseHead(*architecture_, seed); });
}

absl::StatusOr<Score> Model::AccumulateGradients(const Batch& batch) {
  TALLY_RETURN_IF_ERROR(CheckBatch(batch));
  return GuardTorch("training step", [&]() -> absl::StatusOr<Score> {
    architecture_->module().train();
    const torch::Tensor labels = LabelTensor(batch);
    const torch::Tensor logits = architecture_->Forward(InputTensor(batch, architecture_->input()));
    const torch::Tensor loss_sum = LossSum(logits, labels);
    (loss_sum / static_cast<double>(batch.size())).backward();
    torch::NoGradGuard no_grad;
    return ScoreOf(logits, labels, loss_sum);
  });
}

absl::StatusOr<Score> Model::Evaluate(const Batch& batch) {
  TALLY_RETURN_IF_ERROR(CheckBatch(batch));
  return GuardTorch("evaluation", [&]() -> absl::StatusOr<Score> {
    torch::NoGradGuard no_grad;
    architecture_->module().eval();
    const torch::Tensor labels = LabelTensor(batch);
    const torch::Tensor logits = architecture_->Forward(InputTensor(batch, architecture_->input()));
    return ScoreOf(logits, labels, LossSum(logits.to(torch::kFloat64), labels));
  });
}

absl::Status Model::UpdateStatistics(const Batch& batch, uint32_t before) {
  TALLY_RETURN_IF_ERROR(CheckBatch(batch));
  return GuardTorch("statistics", [&]() -> absl::Status {
    torch::NoGradGuard no_grad;
    const CumulativeStatistics statistics(architecture_->module(), before);
    architecture_->Forward(InputTensor(batch, architecture_->input()));
    return absl::OkStatus();
  });
}

absl::Status Model::AccumulateFisher(const Batch& batch, FisherKind kind, absl::Span<float> sums) {
  TALLY_RETURN_IF_ERROR(CheckBatch(batch));
  return GuardTorch("squared gradients", [&]() -> absl::Status {
    const EvaluationMode mode(architecture_->module());
    const FisherBatch fisher = {InputTensor(batch, architecture_->input()), LabelTensor(batch),
                                kind};
    const absl::Status batched = AddFisherBatched(*architecture_, fisher, sums);
    if (!absl::IsUnimplemented(batched)) return batched;
    if (!std::exchange(said_one_by_one_, true)) {
      spdlog::warn("model {}: squared gradients are computed one example at a time, which is slow: "
                   "{}", name_, std::string(batched.message()));
    }
    return AddFisherOneByOne(*architecture_, fisher, sums);
  });
}

std::vector<std::string> Architectures() {
  std::vector<std::string> names;
  for (const ArchitectureEntry& entry : ArchitectureTable()) names.push_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(absl::string_view architecture,
                                                 absl::string_view config_json) {
  for (const ArchitectureEntry& entry : ArchitectureTable()) {
    if (architecture != entry.name) continue;
    TALLY_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::Parse(config_json));
    TALLY_ASSIGN_OR_RETURN(auto made,
                           GuardTorch("build model", [&] { return entry.make(config); }));
    return std::unique_ptr<Model>(
        new Model(entry.name, WithModelType(config_json, entry.name), std::move(made)));
  }
  return absl::InvalidArgumentError(absl::StrCat("architecture: expected one of ",
                                                 absl::StrJoin(Architectures(), ", "), ", found \"",
                                                 architecture, "\""));
}

void SetComputeThreads(int threads) { torch::set_num_threads(threads); }

}  // namespace tally
