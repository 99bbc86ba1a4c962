// The optimiser of a worker's local steps: SGD, AdamW or Lion on spans, so that it serves all
// parameters (lo-fi) as well as those of a mask alone, gathered (FISH): its memory is proportional
// to what it moves. Its state is the worker's own: never sent, never averaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tally {

struct LocalOptimiserOptions {
  std::string name;         // sgd, adamw or lion
  double momentum = 0;      // sgd's mu, in [0, 1)
  double beta1 = 0.9;       // adamw and lion, in [0, 1)
  double beta2 = 0.99;      // adamw and lion, in [0, 1)
  double epsilon = 1e-8;    // adamw, above 0
  double weight_decay = 0;  // sgd: part of the gradient; otherwise decoupled
};

// The words that LocalOptimiserOptions.name takes.
std::vector<std::string> LocalOptimisers();

// Not thread-safe.
class LocalOptimiser {
 public:
  // For `count` parameters, its state zero: `count` float32 (sgd, lion) or twice as many (adamw).
  // INVALID_ARGUMENT with every option that is out of its range.
  static absl::StatusOr<std::unique_ptr<LocalOptimiser>> Create(LocalOptimiserOptions options,
                                                                size_t count);
  virtual ~LocalOptimiser() = default;

  // One step on `count` parameters. INVALID_ARGUMENT, with nothing changed, for another size, a rate
  // that is not a finite number from 0 on, or a gradient that is not finite (the first is named).
  absl::Status Step(double learning_rate, absl::Span<const float> gradient, absl::Span<float> x);

  // Steps so far, and all other state: `count` elements each.
  uint64_t steps() const { return steps_; }
  void set_steps(uint64_t steps) { steps_ = steps; }
  std::vector<absl::Span<float>> state();
  // The state of another time, for as many parameters. INVALID_ARGUMENT, with nothing changed, for
  // other sizes.
  absl::Status Restore(uint64_t steps, absl::Span<const std::vector<float>> state);

 protected:
  LocalOptimiser(LocalOptimiserOptions options, size_t count, size_t slots)
      : options_(std::move(options)), count_(count), state_(slots, std::vector<float>(count)) {}
  const LocalOptimiserOptions& options() const { return options_; }
  absl::Span<float> slot(size_t i) { return absl::MakeSpan(state_[i]); }

 private:
  // `step` counts from 1; everything is checked.
  virtual void Move(double learning_rate, uint64_t step, absl::Span<const float> gradient,
                    absl::Span<float> x) = 0;

  const LocalOptimiserOptions options_;
  const size_t count_;
  uint64_t steps_ = 0;
  std::vector<std::vector<float>> state_;
};

}  // namespace tally
