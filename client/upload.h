// A base model on its way to the server.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/session.h"

namespace tally {

// Streams config.json and the safetensors files of a Hugging Face directory, checked first.
// Returns the digest that ModelSpec.base_digest names. INVALID_ARGUMENT for a directory that is
// no model. Safe to repeat.
absl::StatusOr<std::string> UploadModel(Session& session, const std::string& directory);

}  // namespace tally
