#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "worker/model/architecture.h"

namespace tally {

// Values in place, each parameter's from its own stream of (seed, index among the parameters), so
// that LibTorch's generator has no part in them. Running means start as zeros, variances as ones.
absl::Status InitialiseAll(Architecture& architecture, uint64_t seed);
// The last block's parameters alone, with the values that InitialiseAll gives them.
absl::Status InitialiseHead(Architecture& architecture, uint64_t seed);

}  // namespace tally
