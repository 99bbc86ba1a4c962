// Global AdamW (Loshchilov and Hutter 2019): the step from the mean gradient, decay decoupled and
// multiplied by the learning rate.
//
// The arithmetic, the same bits on every machine; float32, each operation rounded by itself but
// for the one fma, square root and quotient as IEEE 754 rounds them:
//   m = b1 * m + (1 - b1) * g
//   v = b2 * v + (1 - b2) * (g * g)
//   u = m / (sqrt(v) * r + epsilon)      r = float32(1 / sqrt(1 - b2^t))
//   x = fma(x, a, -h * u)                h = float32(lr / (1 - b1^t)), a as in sign_step.h
// All coefficients are computed in double, powers by repeated squaring (a library's pow may
// differ between machines), then rounded to float32.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/reduction/dense_mean/dense_payload.h"

namespace tally {

struct AdamWOptions {
  double learning_rate = 0, weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999;  // in [0, 1)
  double epsilon = 1e-8;              // above 0 also as float32
  uint64_t step = 1;                  // t, the number of this step from 1
};

struct AdamWCoefficients {
  float decay = 1, minus_step = 0;  // a, -h
  float root = 1, epsilon = 0;      // r
  float m_in_m = 0, g_in_m = 0, v_in_v = 0, g_in_v = 0;
};

AdamWCoefficients AdamWCoefficientsOf(const AdamWOptions& options);

// All four have the same size; the gradient is finite.
void AdamWStep(const DenseView& gradient, const AdamWCoefficients& k, absl::Span<float> m,
               absl::Span<float> v, absl::Span<float> x);

}  // namespace tally
