#include "common/rpc/credentials.h"

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/pem.h"

namespace tally {
namespace {

struct KeyPair {
  std::string key;
  std::string certificate;
};

absl::StatusOr<KeyPair> ReadKeyPair(const TlsOptions& tls) {
  if (tls.certificate.empty() || tls.key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: expected certificate and key, found only the ",
                     tls.key.empty() ? absl::StrCat("certificate ", tls.certificate)
                                     : absl::StrCat("key ", tls.key)));
  }
  KeyPair pair;
  TALLY_ASSIGN_OR_RETURN(pair.certificate,
                         ReadCertificate(tls.certificate, Clock::System().Wall()));
  TALLY_ASSIGN_OR_RETURN(pair.key, ReadPrivateKey(tls.key));
  TALLY_RETURN_IF_ERROR(CheckKeyMatches(tls.certificate, pair.certificate, tls.key, pair.key));
  return pair;
}

bool HasKeyPair(const TlsOptions& tls) { return !tls.certificate.empty() || !tls.key.empty(); }

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!tls.ca.empty()) {
    TALLY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadCertificate(tls.ca, Clock::System().Wall()));
  }
  if (HasKeyPair(tls)) {
    TALLY_ASSIGN_OR_RETURN(KeyPair pair, ReadKeyPair(tls));
    options.pem_private_key = std::move(pair.key);
    options.pem_cert_chain = std::move(pair.certificate);
  }
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  if (!HasKeyPair(tls)) {
    return absl::InvalidArgumentError(
        "TLS: expected certificate and key of the server, found only a ca");
  }
  TALLY_ASSIGN_OR_RETURN(KeyPair pair, ReadKeyPair(tls));
  grpc::SslServerCredentialsOptions options(
      tls.ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                     : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({std::move(pair.key), std::move(pair.certificate)});
  if (!tls.ca.empty()) {
    TALLY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadCertificate(tls.ca, Clock::System().Wall()));
  }
  return grpc::SslServerCredentials(options);
}

}  // namespace tally
