// The outer optimiser of local rounds: the workers' mean delta d, what they made of the parameters
// in their local steps, moves the common parameters.
//
// The arithmetic, the same bits on every machine; float32, each line one fma:
//   outer_sgd        x = fma(lr, d, x)           lr 1: the plain mean (lo-fi, Wortsman et al. 2022);
//                                                lr a: (1 - a) * base + a * mean
//   outer_momentum   u = fma(mu, u, d);  x = fma(lr, u, x)
//   outer_nesterov   u = fma(mu, u, d);  x = fma(lr, fma(mu, u, d), x)
//                                                (DiLoCo, Douillard et al. 2023: lr 0.7, mu 0.9)
// SGD's usual form with the gradient -d, no dampening.
#pragma once

#include "absl/types/span.h"
#include "common/reduction/dense_mean/dense_payload.h"

namespace tally {

struct OuterCoefficients {
  float rate = 1;
  float momentum = 0;
};

// All spans of a call have the same size; the deltas are finite.
void OuterSgdStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x);
void OuterMomentumStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> u,
                       absl::Span<float> x);
void OuterNesterovStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> u,
                       absl::Span<float> x);

}  // namespace tally
