#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"

namespace tally {

// A folder with shards train-*.safetensors and perhaps test-*.safetensors, in the order of their
// names; shard.h says what is in one. Nothing is held in memory: rows are read through the mapping.
absl::StatusOr<std::unique_ptr<DataSource>> OpenSafetensorsSource(const std::string& path);

}  // namespace tally
