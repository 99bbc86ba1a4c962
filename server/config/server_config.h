// The server's configuration, server.yaml; docs/operating.md lists the keys.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/logging.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"

namespace tally {

struct ServerConfig {
  Address listen;                         // gRPC; port 0 lets the system choose
  std::optional<Address> status;          // HTTP, never TLS; nothing: off
  std::string state_dir;
  bool insecure = false;                  // plain text beyond loopback is allowed
  TlsOptions tls;                         // of `listen`; its ca is the file's client_ca
  absl::Duration heartbeat;               // between a worker's heartbeats; its lease is four of them
  bool strict_durability = false;         // sync the ledger before a round is announced
  LoggingOptions log;
  std::string resolved;                   // what is in effect, as YAML
};

// Every problem at once, each with "PATH:LINE: KEY: ".
absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path);
absl::StatusOr<ServerConfig> ParseServerConfig(const std::string& text, const std::string& name);

}  // namespace tally
