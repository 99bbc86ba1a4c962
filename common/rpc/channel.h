// Client ends of connections, for the client and the workers alike.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/rpc/credentials.h"
#include "grpcpp/channel.h"

namespace tally {

struct ChannelOptions {
  TlsOptions tls = {};
  // Longest pause between attempts to connect again.
  absl::Duration max_backoff = absl::Seconds(5);
};

// Connects lazily. INVALID_ARGUMENT for an address that is none, or whose port is 0.
absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address,
                                                             const ChannelOptions& options);

// OK as soon as a gRPC server answers at the other end. UNAVAILABLE at the deadline says address
// and reason, as Explain does.
absl::Status WaitForConnected(const std::shared_ptr<grpc::Channel>& channel,
                              absl::string_view address, absl::Duration timeout);

// A call's failure, for people: an UNAVAILABLE one gains the address, gRPC's own words without
// their wrapping, and the proxy variable in effect if there is one. Others stay as they are.
absl::Status Explain(const absl::Status& status, absl::string_view address);

}  // namespace tally
