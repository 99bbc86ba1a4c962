// Comparing floats by their bits: -0.0 is not +0.0 here.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tally::testing {

inline std::vector<uint32_t> BitsOf(absl::Span<const float> values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace tally::testing
