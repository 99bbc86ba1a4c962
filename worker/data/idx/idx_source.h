#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"

namespace tally {

// A folder with train-images-idx3-ubyte and train-labels-idx1-ubyte, and perhaps the same with
// t10k for the test split; each plain or with .gz behind its name (the plain one if both).
// Examples are 1 x rows x columns bytes. Images are streamed; labels, a byte a row, stay in memory.
absl::StatusOr<std::unique_ptr<DataSource>> OpenIdxSource(const std::string& path);

}  // namespace tally
