// The whole server as one handle: everything started in order, stopped in the opposite one.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/address.h"
#include "server/config/server_config.h"

namespace tally {

class Server {
 public:
  // Serves once it returns. Errors: the state directory is locked or damaged, a port is in use,
  // credentials cannot be read.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config);
  // Stop, with a short grace.
  ~Server();

  // With the real ports.
  const Address& address() const;
  // Empty when the status endpoint is off.
  std::string status_address() const;
  // Tells health checks, ends the streams after `grace` at the latest, then closes all. Jobs stay as
  // they are on disk and go on with the next server.
  void Stop(absl::Duration grace);

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tally
