#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/model/architecture.h"
#include "worker/model/config_reader.h"

namespace tally {

struct ArchitectureEntry {
  const char* name;
  // Reads its keys, calls config.Finish(), builds. May throw what LibTorch throws.
  absl::StatusOr<std::unique_ptr<Architecture>> (*make)(ModelConfig& config);
  // A small config.json for the conformance suite and the documentation.
  const char* sample_config;
};

absl::Span<const ArchitectureEntry> ArchitectureTable();

}  // namespace tally
