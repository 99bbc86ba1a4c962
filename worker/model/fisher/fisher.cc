#include "worker/model/fisher/fisher.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/fisher/gradient_recorder.h"
#include "worker/model/fisher/squared_sums.h"

namespace tally {
namespace {

// A parameter and its part of the sums, a tensor of its shape that shares their memory.
struct Place {
  std::string name;
  torch::Tensor parameter;
  torch::Tensor sums;
};

absl::StatusOr<std::vector<Place>> PlacesIn(Architecture& architecture, absl::Span<float> sums) {
  TALLY_ASSIGN_OR_RETURN(const auto blocks, BlocksOf(architecture));
  const auto size = static_cast<int64_t>(sums.size());
  const torch::Tensor all = torch::from_blob(sums.data(), {size}, torch::kFloat32);
  std::vector<Place> places;
  int64_t first = 0;
  for (const BlockParameters& block : blocks) {
    for (const auto& [name, parameter] : block.parameters) {
      const int64_t end = first + parameter.numel();
      if (end <= size) {
        places.push_back({name, parameter, all.slice(0, first, end).view(parameter.sizes())});
      }
      first = end;
    }
  }
  if (first == size) return places;
  return absl::InvalidArgumentError(
      absl::StrCat("squared gradients: expected room for ", first, " parameters, found ", size));
}

// Row i, for each example i, is finite; `values`: [n, ...].
absl::Status CheckFinite(const torch::Tensor& values, absl::StatusCode code, const char* what) {
  const torch::Tensor good = values.detach().isfinite().flatten(1).all(1);
  if (good.all().item<bool>()) return absl::OkStatus();
  const auto example = good.logical_not().nonzero()[0].item<int64_t>();
  return absl::Status(code, absl::StrCat("squared gradients: expected finite ", what, ", found ",
                                         "others for example ", example, " of the batch"));
}

absl::Status CheckInput(const FisherBatch& batch) {
  return CheckFinite(batch.input, absl::StatusCode::kInvalidArgument, "input");
}

absl::Status CheckLogits(const torch::Tensor& logits) {
  return CheckFinite(logits, absl::StatusCode::kFailedPrecondition, "logits");
}

// A plain loop without an early end, which becomes vector instructions.
bool AllFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7F800000;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

absl::Status CheckSums(const std::vector<Place>& places) {
  for (const Place& place : places) {
    if (AllFinite(place.sums.data_ptr<float>(), place.sums.numel())) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "squared gradients: expected finite sums, found others for parameter ", place.name));
  }
  return absl::OkStatus();
}

// What backward starts from, pass by pass, so that the squares come out with the right weights.
class LogitGradients {
 public:
  // `logits`: [n, classes]. In float64: 1 - p of a sure model is far below p's float32 spacing.
  LogitGradients(const torch::Tensor& logits, torch::Tensor labels, FisherKind kind)
      : probabilities_(logits.detach().to(torch::kFloat64).softmax(1)),
        labels_(std::move(labels)),
        kind_(kind) {}

  int64_t passes() const { return kind_ == FisherKind::kExpected ? probabilities_.size(1) : 1; }

  // float32 [n, classes]: d log p(c) / d logits = onehot(c) - p, with c the label; or the pass,
  // and then times sqrt(p(c)), whose square is the weight.
  torch::Tensor At(int64_t pass) const {
    const bool expected = kind_ == FisherKind::kExpected;
    const torch::Tensor classes =
        (expected ? torch::full_like(labels_, pass) : labels_).unsqueeze(1);
    torch::Tensor rows = probabilities_.neg().scatter_add_(
        1, classes, torch::ones(classes.sizes(), torch::kFloat64));
    if (expected) rows.mul_(probabilities_.gather(1, classes).sqrt());
    return rows.to(torch::kFloat32);
  }

 private:
  const torch::Tensor probabilities_;
  const torch::Tensor labels_;
  const FisherKind kind_;
};

absl::Status AddExample(Architecture& architecture, const FisherBatch& example,
                        const std::vector<Place>& places) {
  std::vector<torch::Tensor> parameters;
  for (const Place& place : places) parameters.push_back(place.parameter);
  const torch::Tensor logits = architecture.Forward(example.input);
  TALLY_RETURN_IF_ERROR(CheckLogits(logits));
  if (!logits.requires_grad()) return absl::OkStatus();
  const LogitGradients starts(logits, example.labels, example.kind);
  for (int64_t pass = 0; pass < starts.passes(); ++pass) {
    const auto gradients = torch::autograd::grad({logits}, parameters, {starts.At(pass)},
                                                 /*retain_graph=*/true, /*create_graph=*/false,
                                                 /*allow_unused=*/true);
    for (size_t i = 0; i < places.size(); ++i) {
      if (!gradients[i].defined()) continue;
      AddSquares(gradients[i].unsqueeze(0), places[i].sums);
    }
  }
  return absl::OkStatus();
}

std::vector<Place> Trainable(const std::vector<Place>& places) {
  std::vector<Place> trainable;
  for (const Place& place : places) {
    if (place.parameter.requires_grad()) trainable.push_back(place);
  }
  return trainable;
}

}  // namespace

absl::Status AddFisherBatched(Architecture& architecture, const FisherBatch& batch,
                              absl::Span<float> sums) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<Place> places, PlacesIn(architecture, sums));
  TALLY_RETURN_IF_ERROR(CheckInput(batch));
  GradientRecorder recorder(batch.input.size(0));
  for (const Place& place : Trainable(places)) {
    recorder.Want(place.name, place.parameter, place.sums);
  }
  const torch::Tensor logits = [&] {
    const GradientRecorder::Scope scope(recorder);
    return architecture.Forward(batch.input);
  }();
  TALLY_RETURN_IF_ERROR(recorder.Check(logits));
  TALLY_RETURN_IF_ERROR(CheckLogits(logits));
  if (!logits.requires_grad()) return absl::OkStatus();
  const LogitGradients starts(logits, batch.labels, batch.kind);
  for (int64_t pass = 0; pass < starts.passes(); ++pass) {
    logits.backward(starts.At(pass), /*retain_graph=*/pass + 1 < starts.passes());
  }
  return CheckSums(places);
}

absl::Status AddFisherOneByOne(Architecture& architecture, const FisherBatch& batch,
                               absl::Span<float> sums) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<Place> places, PlacesIn(architecture, sums));
  TALLY_RETURN_IF_ERROR(CheckInput(batch));
  const std::vector<Place> trainable = Trainable(places);
  for (int64_t i = 0; i < batch.input.size(0); ++i) {
    const FisherBatch example = {batch.input.slice(0, i, i + 1), batch.labels.slice(0, i, i + 1),
                                 batch.kind};
    TALLY_RETURN_IF_ERROR(
        WithContext(AddExample(architecture, example, trainable), absl::StrCat("example ", i)));
  }
  return CheckSums(places);
}

}  // namespace tally
