#pragma once

#include <vector>

namespace tally {

// (value / 255 - mean) / deviation per channel for bytes; (value - mean) / deviation for floats.
// One entry serves all channels.
struct PixelScaling {
  std::vector<float> mean;
  std::vector<float> deviation;
};

}  // namespace tally
