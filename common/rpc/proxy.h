// gRPC takes a proxy from the environment; when a connection fails, people should hear which.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// As std::getenv.
using Environment = std::function<const char*(const char* name)>;

// "NAME=value" of the variable that gRPC would take the proxy for `host` from, or "" if it would
// connect directly. A password in the value is left out. Follows gRPC 1.51's
// http_proxy_mapper: grpc_proxy, https_proxy, http_proxy; no_grpc_proxy, no_proxy with suffixes.
std::string ProxyInEffect(absl::string_view host, const Environment& environment);

}  // namespace tally
