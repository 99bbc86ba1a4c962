// TLS from files in PEM form; the only place where credentials are made.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace tally {

// Paths. All empty: no TLS.
struct TlsOptions {
  // Client: who signs servers. Server: who signs clients (mutual TLS).
  std::string ca = "";
  std::string certificate = "";  // one's own, with its chain
  std::string key = "";          // of the certificate
  bool enabled() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

// Each error names the file and says what is wrong with it: unreadable, no PEM, expired, not yet
// valid, or a key that is not the certificate's.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls);
// Needs certificate and key. With a ca, clients must show a certificate signed by it.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls);

}  // namespace tally
