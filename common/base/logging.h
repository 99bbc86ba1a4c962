// Structured logs on standard error: text for people, or JSON lines for programs.
// Call sites use spdlog directly: spdlog::info("round {} closed", round).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"

namespace tally {

struct LoggingOptions {
  std::string level = "info";   // debug, info, warn, error
  std::string format = "text";  // text, json
};

// Sets up the default logger. INVALID_ARGUMENT for an unknown level or format.
absl::Status StartLogging(const LoggingOptions& options, const std::string& program);

}  // namespace tally
