#include "common/rpc/channel.h"

#include <chrono>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/limits.h"
#include "common/rpc/proxy.h"
#include "common/rpc/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace tally {
namespace {

constexpr int kFirstBackoffMs = 200;
// A name may stand for another address after each failure; gRPC would look only every 30 s.
constexpr int kResolveAgainMs = 1000;

grpc::ChannelArguments Arguments(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepalivePingMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.max_backoff)));
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveAgainMs);
  // Without it, channels of one process with the same arguments share a connection, and one
  // user's back-off delays another's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

// A call that any gRPC server answers, be it with UNIMPLEMENTED.
grpc::Status CallHealth(const std::shared_ptr<grpc::Channel>& channel,
                        std::chrono::system_clock::time_point deadline) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(deadline);
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request(nullptr, 0);  // asks for the server as a whole
  grpc::ByteBuffer reply;
  grpc::Status status;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&reply, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

bool CameFromServer(const grpc::Status& status) {
  return status.error_code() != grpc::StatusCode::UNAVAILABLE &&
         status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         status.error_code() != grpc::StatusCode::CANCELLED;
}

constexpr char kConnecting[] = "failed to connect to all addresses; last error: ";

// gRPC wraps the reason several times; what stands after the last wrapping is for people.
std::string Unwrapped(absl::string_view message) {
  for (const absl::string_view wrapping :
       {absl::string_view(kConnecting), absl::string_view("UNKNOWN: "),
        absl::string_view("UNAVAILABLE: ")}) {
    const size_t at = message.rfind(wrapping);
    if (at != absl::string_view::npos) message.remove_prefix(at + wrapping.size());
  }
  return std::string(message);
}

// What is behind OpenSSL's and the socket's words, for failures to connect.
absl::string_view Hint(absl::string_view message) {
  if (!absl::StrContains(message, kConnecting)) return "";
  if (absl::StrContains(message, "not in peer certificate")) {
    return " (the server's certificate is for another host name)";
  }
  if (absl::StrContains(message, "wrong version number") ||
      absl::StrContains(message, "WRONG_VERSION_NUMBER")) {
    return " (the server speaks no TLS)";
  }
  if (absl::StrContains(message, "Ssl handshake failed")) {
    return " (the server's certificate is not signed by the ca given, or has expired)";
  }
  if (absl::StrContains(message, "Socket closed") ||
      absl::StrContains(message, "Connection reset")) {
    return " (the server hung up at once: it expects TLS, or a client certificate that it knows)";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address,
                                                             const ChannelOptions& options) {
  TALLY_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  if (parsed.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", address, "\": expected a port from 1 to 65535, found 0"));
  }
  TALLY_ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(options.tls));
  return grpc::CreateCustomChannel(parsed.ToString(), credentials, Arguments(options));
}

absl::Status WaitForConnected(const std::shared_ptr<grpc::Channel>& channel,
                              absl::string_view address, absl::Duration timeout) {
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoNanoseconds(timeout);
  absl::Status last = absl::UnavailableError("no answer");
  bool was_ready = false;
  while (true) {
    const grpc::Status status = CallHealth(channel, deadline);
    if (CameFromServer(status)) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) last = FromGrpcStatus(status);
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    const bool ready = state == GRPC_CHANNEL_READY;
    // A peer that is there and itself says UNAVAILABLE, twice.
    if (ready && was_ready) return Explain(last, address);
    was_ready = ready;
    // Otherwise another state is another attempt, made or about to be.
    const bool again = ready || channel->WaitForStateChange(state, deadline);
    if (!again || std::chrono::system_clock::now() >= deadline) return Explain(last, address);
  }
}

absl::Status Explain(const absl::Status& status, absl::string_view address) {
  if (!absl::IsUnavailable(status)) return status;
  const std::string reason = Unwrapped(status.message());
  std::string message = absl::StrCat("server ", address, ": ", reason, Hint(status.message()));
  const auto parsed = ParseAddress(address);
  const std::string proxy =
      ProxyInEffect(parsed.ok() ? parsed->host : std::string(address),
                    [](const char* name) -> const char* { return std::getenv(name); });
  if (!proxy.empty()) {
    absl::StrAppend(&message, "; the connection went through the proxy of ", proxy,
                    ", add the host to no_proxy to go without");
  }
  return absl::UnavailableError(message);
}

}  // namespace tally
