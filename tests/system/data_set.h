// A small data set that a small model learns at once: four classes of 3 x 8 x 8 images.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tally::testing {

inline constexpr int kClasses = 4;
inline constexpr int kTrainExamples = 240;
inline constexpr int kTestExamples = 60;

// A folder in the worker's `safetensors` format. Every call writes the same bytes.
absl::Status WriteDataSet(const std::string& folder);

}  // namespace tally::testing
