// What methods with local rounds share: the worker's own optimiser, and its state as a checkpoint has it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "worker/local/local_optimiser.h"
#include "worker/method/method.h"

namespace tally {

class LocalMethod : public Method {
 public:
  absl::Status LocalStep(double rate, absl::Span<const float> gradient, absl::Span<float> x) override {
    return optimiser_->Step(rate, gradient, x);
  }
  std::vector<MethodState> State() override;

 protected:
  LocalMethod(LocalOptimiserOptions options, size_t count);
  LocalOptimiser& optimiser() { return *optimiser_; }
  // A new one for so many parameters: its steps go on, its other state is zero. Returns the old one.
  std::unique_ptr<LocalOptimiser> Resize(size_t count);

 private:
  void Restored() override;

  const LocalOptimiserOptions options_;
  std::unique_ptr<LocalOptimiser> optimiser_;
  std::array<float, 2> steps_{};
};

// The job's numbers, which the server has checked.
LocalOptimiserOptions OptimiserOptionsOf(const v1::MethodSpec& spec);

}  // namespace tally
