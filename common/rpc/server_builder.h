// Server ends of connections.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace tally {

// Message limits, keepalive, no sharing of ports, the health and the reflection service. Health
// starts as SERVING for "" and is the owner's to change (Server::GetHealthCheckService).
void ConfigureServer(grpc::ServerBuilder& builder);

// INVALID_ARGUMENT unless TLS is on, the address is a loopback one, or `insecure` is said.
absl::Status CheckExposure(const Address& address, const TlsOptions& tls, bool insecure);

struct RunningServer {
  std::unique_ptr<grpc::Server> server;
  Address address;  // with the real port
};

// Configures, binds and starts what `builder` holds. UNAVAILABLE names the address and the
// system's reason (in use, no permission, no such address).
absl::StatusOr<RunningServer> StartServer(grpc::ServerBuilder& builder, const Address& address,
                                          const TlsOptions& tls);

}  // namespace tally
