// Local SGD with momentum (Sutskever et al. 2013, in the form that PyTorch made common): decay is
// part of the gradient, not decoupled as Lion's and AdamW's.
//
// The arithmetic, float32, each line one fma:
//   d = fma(wd, x, g)
//   m = fma(mu, m, d)
//   x = fma(-lr, m, x)
#pragma once

#include "absl/types/span.h"

namespace tally {

struct SgdCoefficients {
  float rate = 0, momentum = 0, decay = 0;
};

// All three have the same size; the gradient is finite.
void SgdStep(absl::Span<const float> gradient, const SgdCoefficients& k, absl::Span<float> m,
             absl::Span<float> x);

}  // namespace tally
