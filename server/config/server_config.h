// The server's configuration, server.yaml; docs/operating.md lists the keys.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/logging.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"
#include "server/ledger/keep.h"

namespace tally {

struct ServerConfig {
  Address listen;                         // gRPC; port 0 lets the system choose
  std::optional<Address> status;          // HTTP, never TLS; nothing: off
  std::string state_dir;
  bool insecure = false;                  // plain text beyond loopback is allowed
  TlsOptions tls;                         // of `listen`; its ca is the file's client_ca
  absl::Duration heartbeat;               // between a worker's heartbeats; its lease is four of them
  bool strict_durability = false;         // sync the ledger before a round is announced
  LedgerKeep keep;                        // what of a job's rounds and snapshots stays on the disk
  LoggingOptions log;
  std::string resolved;                   // what is in effect, as YAML
};

// Whether the files that the configuration names are read, too, and what is wrong with them is a
// problem of the key that names them.
enum class ServerFiles { kUnread, kRead };

// Every problem at once, each with "PATH:LINE: KEY: ".
absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path,
                                              ServerFiles files = ServerFiles::kUnread);
absl::StatusOr<ServerConfig> ParseServerConfig(const std::string& text, const std::string& name,
                                               ServerFiles files = ServerFiles::kUnread);

}  // namespace tally
