// Global Lion (Chen et al. 2023): the step from the mean gradient, the yardstick for the vote.
//
// The arithmetic, the same bits on every machine; float32, each operation rounded by itself but
// for the one fma:
//   c = b1 * m + (1 - b1) * g        coefficients computed in double, then rounded to float32
//   x = fma(x, a, -lr * sign(c))     a and lr as in sign_step.h; sign(0) = 0 leaves decay only
//   m = b2 * m + (1 - b2) * g
#pragma once

#include "absl/types/span.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/update/sign_step.h"

namespace tally {

struct LionCoefficients {
  StepCoefficients step;
  float momentum_in_c = 0, gradient_in_c = 0, momentum_in_m = 0, gradient_in_m = 0;
};

LionCoefficients LionCoefficientsOf(double learning_rate, double weight_decay, double beta1,
                                    double beta2);

// All three have the same size; the gradient is finite.
void LionStep(const DenseView& gradient, const LionCoefficients& k, absl::Span<float> m,
              absl::Span<float> x);

}  // namespace tally
