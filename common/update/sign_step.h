// The fused step of Distributed Lion: x = x - lr * (D + wd * x), one fused multiply-add a
// parameter.
//
// The arithmetic, the same bits on every machine:
//   a = float32(1 - lr * wd)      in double: product, difference, then rounded to float32
//   x = fma(x, a, -float32(lr) * s)
// s is the element's D: +1 or -1 of a majority; (2c - v) / v of a sign_mean, the quotient of two
// whole numbers rounded once to float32, and its product with -lr once more. Where s is 0 (a tie,
// c = v/2, a lane without voters) the addend is -0.0, so x becomes x * a rounded once: decay only.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "common/reduction/majority/majority_payload.h"
#include "common/reduction/sign_mean/sign_mean_payload.h"

namespace tally {

struct StepCoefficients {
  float decay = 1;           // a
  float minus_rate = -0.0f;  // -lr
};

StepCoefficients StepCoefficientsOf(double learning_rate, double weight_decay);

// x has the chunk's elements from lane `first_lane` on, the chunk's last lane perhaps in part.
void SignStep(const MajorityView& view, const StepCoefficients& step, absl::Span<float> x,
              size_t first_lane = 0);
void SignStep(const SignMeanView& view, const StepCoefficients& step, absl::Span<float> x,
              size_t first_lane = 0);

struct MajorityStep {
  MajorityView view;
  StepCoefficients step;
};

// SignStep for one after the other, with each parameter read and written once for all.
void SignSteps(absl::Span<const MajorityStep> steps, absl::Span<float> x, size_t first_lane = 0);

}  // namespace tally
