#include "common/rpc/address.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tally {
namespace {

constexpr size_t kMaxHostLength = 253;  // of a DNS name

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", absl::CHexEscape(text.substr(0, 300)), "\": ", why));
}

bool IsIpv6(const std::string& host) {
  in6_addr ignored;
  // A zone (fe80::1%eth0) is not part of what inet_pton reads.
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &ignored) == 1;
}

bool IsHostName(absl::string_view host) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  };
  return !host.empty() && host.size() <= kMaxHostLength &&
         std::all_of(host.begin(), host.end(), allowed);
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view text, absl::string_view port) {
  uint32_t value = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &value) || value > 65535) {
    return Bad(text, absl::StrCat("expected a port from 0 to 65535, found \"",
                                  absl::CHexEscape(port), "\""));
  }
  return static_cast<uint16_t>(value);
}

absl::StatusOr<Address> ParseBracketed(absl::string_view text) {
  const size_t end = text.find(']');
  if (end == absl::string_view::npos || end + 1 >= text.size() || text[end + 1] != ':') {
    return Bad(text, "expected [IPv6]:port");
  }
  Address address;
  address.host = std::string(text.substr(1, end - 1));
  if (!IsIpv6(address.host)) {
    return Bad(text, absl::StrCat("expected an IPv6 address in the brackets, found \"",
                                  absl::CHexEscape(address.host), "\""));
  }
  auto port = ParsePort(text, text.substr(end + 2));
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

}  // namespace

std::string Address::ToString() const {
  const bool brackets = absl::StrContains(host, ':');
  return brackets ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  if (absl::StartsWith(text, "[")) return ParseBracketed(text);
  const size_t colons = std::count(text.begin(), text.end(), ':');
  if (colons > 1) {
    return Bad(text, "expected host:port; an IPv6 address stands in brackets, [::1]:7070");
  }
  if (colons == 0) return Bad(text, "expected host:port, found no port");
  const size_t colon = text.find(':');
  Address address;
  address.host = std::string(text.substr(0, colon));
  if (!IsHostName(address.host)) {
    return Bad(text, "expected a host name or an IP address before the colon");
  }
  auto port = ParsePort(text, text.substr(colon + 1));
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

bool IsLoopback(const Address& address) {
  if (absl::EqualsIgnoreCase(address.host, "localhost")) return true;
  in_addr v4;
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace tally
