#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tally {

// A JSON object without repeated keys at any level and at most 64 levels deep. INVALID_ARGUMENT
// without a path; no exception leaves.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text);

// `text` as a JSON string; INVALID_ARGUMENT if it is not UTF-8.
absl::StatusOr<std::string> JsonString(absl::string_view text);

}  // namespace tally
