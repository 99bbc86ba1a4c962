#include "server/service/peer.h"

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace tally {

std::string AddressOfPeer(absl::string_view peer) {
  if (!absl::ConsumePrefix(&peer, "ipv4:") && !absl::ConsumePrefix(&peer, "ipv6:")) {
    return std::string(peer);
  }
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace tally
