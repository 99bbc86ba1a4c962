#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// host:port of gRPC's peer URI, as people write it: "ipv4:10.0.0.1:5" is 10.0.0.1:5, "ipv6:[::1]:5" or
// "ipv6:%5B::1%5D:5" is [::1]:5. Others stay as they are.
std::string AddressOfPeer(absl::string_view peer);

}  // namespace tally
