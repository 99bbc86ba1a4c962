// A model as the training loop sees it: batches in, gradients and scores out. LibTorch stays behind
// this header; what an architecture implements is in architecture.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/data_source.h"
#include "worker/data/example.h"
#include "worker/model/fisher/fisher_kind.h"

namespace tally {

class Architecture;

// Sums over examples, so that scores of shares add up exactly.
struct Score {
  double loss_sum = 0;  // cross entropy, in nats
  uint64_t correct = 0;
  uint64_t count = 0;

  Score& operator+=(const Score& other) {
    loss_sum += other.loss_sum;
    correct += other.correct;
    count += other.count;
    return *this;
  }
};

// Not thread-safe. LibTorch's exceptions end here and become INTERNAL.
class Model {
 public:
  ~Model();

  // A name of Architectures().
  const std::string& architecture_name() const { return name_; }
  // As given to MakeModel, and with a model_type: the architecture's name if none was given.
  const std::string& config_json() const { return config_json_; }
  // Channels, rows, columns; or one extent: examples of any shape with as many elements.
  const std::vector<uint64_t>& input_shape() const;
  uint32_t classes() const;
  // INVALID_ARGUMENT unless examples have the input's shape and the labels are classes.
  absl::Status CheckFits(const DataInfo& data) const;

  // Parameters and buffers anew, as a function of the seed. Deterministic for one build.
  absl::Status Initialise(uint64_t seed);
  // The same for the last block alone.
  absl::Status ResetHead(uint64_t seed);

  // Forward and backward in training mode. The gradient of the batch's mean loss is added to the
  // gradients there are. INVALID_ARGUMENT for a batch that does not fit.
  absl::StatusOr<Score> AccumulateGradients(const Batch& batch);
  // Forward in evaluation mode.
  absl::StatusOr<Score> Evaluate(const Batch& batch);
  // Forward in training mode, without gradients: BatchNorm's running statistics become the mean of those
  // of this batch and of the `before` ones that calls have been made for, one after the other from 0
  // (update_bn in stochastic weight averaging, Izmailov et al. 2018). Other modules keep their mode.
  absl::Status UpdateStatistics(const Batch& batch, uint32_t before);
  // Adds each example's squared gradient to `sums`, one float32 a parameter in the order of the
  // flat layout (its trained_size()): (d log p(y|x) / d parameter)^2 with the example's own label
  // y, or sum_c p(c|x) (d log p(c|x) / d parameter)^2. What is frozen gets nothing. Computed in
  // evaluation mode, without dropout and with BatchNorm's running statistics; each module's mode
  // comes back, and parameters, buffers and gradients keep their bits. One backward pass over the
  // batch (kExpected: one a class) if the model's layers allow it; otherwise as many for each
  // example, with a line in the log. INVALID_ARGUMENT for a batch that does not fit or is not
  // finite, FAILED_PRECONDITION for logits or sums that are not; `sums` are of no use then.
  absl::Status AccumulateFisher(const Batch& batch, FisherKind kind, absl::Span<float> sums);

  // For code that includes LibTorch.
  Architecture& architecture() { return *architecture_; }

 private:
  friend absl::StatusOr<std::unique_ptr<Model>> MakeModel(absl::string_view architecture,
                                                          absl::string_view config_json);
  Model(std::string name, std::string config_json, std::unique_ptr<Architecture> architecture);
  absl::Status CheckBatch(const Batch& batch) const;

  std::string name_;
  std::string config_json_;
  std::unique_ptr<Architecture> architecture_;
  bool said_one_by_one_ = false;
};

// Names that MakeModel knows: mlp, vit, resnet_cifar.
std::vector<std::string> Architectures();

// A model with parameters not yet initialised. INVALID_ARGUMENT for an unknown architecture, or
// with every problem of `config_json` (the text of a config.json), one a line.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(absl::string_view architecture,
                                                 absl::string_view config_json);

// Threads that LibTorch's operators use in this process. Positive.
void SetComputeThreads(int threads);

}  // namespace tally
