#include "common/rpc/server_builder.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/limits.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"

namespace tally {
namespace {

// gRPC logs why it could not bind and does not tell; asking the system again does.
std::string BindFailure(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string reason = "gRPC could not start there";
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const FileDescriptor fd(socket(info->ai_family, info->ai_socktype, info->ai_protocol));
    if (!fd.valid() || bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0) {
      reason = std::strerror(errno);
      break;
    }
  }
  freeaddrinfo(found);
  return reason;
}

}  // namespace

void ConfigureServer(grpc::ServerBuilder& builder) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepalivePermitMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepalivePingMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Otherwise a second server would bind the same port and take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

absl::Status CheckExposure(const Address& address, const TlsOptions& tls, bool insecure) {
  if (tls.enabled() || insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("address ", address.ToString(),
                   ": expected TLS, a loopback address or `insecure: true`, found none of them"));
}

absl::StatusOr<RunningServer> StartServer(grpc::ServerBuilder& builder, const Address& address,
                                          const TlsOptions& tls) {
  TALLY_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(tls));
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  RunningServer running{builder.BuildAndStart(), address};
  if (running.server == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ", BindFailure(address)));
  }
  running.address.port = static_cast<uint16_t>(port);
  return running;
}

}  // namespace tally
