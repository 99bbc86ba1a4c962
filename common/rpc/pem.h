// Reading and judging PEM files before gRPC sees them: its own failures come late and say little.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tally {

// The file's text, checked to begin with a certificate that is valid at `now`.
absl::StatusOr<std::string> ReadCertificate(const std::string& path, absl::Time now);
// The file's text, checked to hold an unencrypted private key.
absl::StatusOr<std::string> ReadPrivateKey(const std::string& path);
// INVALID_ARGUMENT naming both files unless the key belongs to the (first) certificate.
absl::Status CheckKeyMatches(const std::string& certificate_path, const std::string& certificate,
                             const std::string& key_path, const std::string& key);

}  // namespace tally
