// host:port, as people write it. IPv6 addresses stand in brackets: [::1]:7070.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tally {

struct Address {
  std::string host;  // without brackets
  uint16_t port = 0;
  // With brackets where the host needs them.
  std::string ToString() const;
};

// INVALID_ARGUMENT with what was expected and found. Names are not resolved here.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// localhost, 127.0.0.0/8 and ::1; other names are not, whatever they resolve to.
bool IsLoopback(const Address& address);

}  // namespace tally
