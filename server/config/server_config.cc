#include "server/config/server_config.h"

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "common/config/logging_section.h"
#include "common/rpc/pem.h"

namespace tally {
namespace {

constexpr char kOff[] = "off";
constexpr uint64_t kKibibyte = uint64_t{1} << 10;
constexpr uint64_t kTebibyte = uint64_t{1} << 40;

// Nothing when the text is no address, which is then a problem of the document.
std::optional<Address> ReadAddress(ConfigMap& root, absl::string_view key,
                                   const std::string& fallback) {
  const std::string text = root.String(key, fallback);
  if (text.empty() && !root.Has(key)) return std::nullopt;
  absl::StatusOr<Address> address = ParseAddress(text);
  if (address.ok()) return *std::move(address);
  root.ErrorHere(key, address.status().message());
  return std::nullopt;
}

void CheckReach(ConfigMap& root, absl::string_view key, const Address& address,
                absl::string_view instead) {
  if (IsLoopback(address)) return;
  root.ErrorHere(key, absl::StrCat("expected a loopback address (127.0.0.1, [::1], localhost), ",
                                   instead, " or insecure: true, found ", address.ToString()));
}

TlsOptions ReadTls(ConfigMap& root) {
  TlsOptions tls;
  if (!root.Has("tls")) return tls;
  ConfigMap map = root.Map("tls");
  const auto path = [&](absl::string_view key, std::optional<std::string> fallback) {
    const std::string value = map.String(key, fallback);
    if (map.Has(key) && value.empty()) map.ErrorHere(key, "expected a path, found \"\"");
    return value;
  };
  tls.certificate = path("certificate", std::nullopt);
  tls.key = path("key", std::nullopt);
  tls.ca = path("client_ca", "");
  return tls;
}

// What the start would refuse, and gRPC only later and in fewer words.
void CheckTlsFiles(ConfigMap tls, const TlsOptions& options) {
  const absl::Time now = Clock::System().Wall();
  const auto report = [&](absl::string_view key, const absl::Status& status) {
    if (!status.ok()) tls.ErrorHere(key, status.message());
  };
  const auto certificate = ReadCertificate(options.certificate, now);
  const auto key = ReadPrivateKey(options.key);
  if (!options.certificate.empty()) report("certificate", certificate.status());
  if (!options.key.empty()) report("key", key.status());
  if (certificate.ok() && key.ok()) {
    report("key", CheckKeyMatches(options.certificate, *certificate, options.key, *key));
  }
  if (!options.ca.empty()) report("client_ca", ReadCertificate(options.ca, now).status());
}

LedgerKeep ReadKeep(ConfigMap ledger, ConfigMap snapshots) {
  LedgerKeep keep;
  keep.keep_rounds = ledger.AllOr("keep_rounds", {.low = 1}, std::nullopt);
  keep.segment_bytes =
      ledger.ByteSize("segment", {64 * kKibibyte, kTebibyte}, LedgerKeep().segment_bytes);
  keep.keep_snapshots = snapshots.AllOr("keep", {.low = 1}, LedgerKeep().keep_snapshots);
  return keep;
}

void ReadListen(ConfigMap& root, ServerConfig& config) {
  if (const auto listen = ReadAddress(root, "listen", "127.0.0.1:7070")) config.listen = *listen;
  config.status = root.Has("status") && root.String("status", kOff) == kOff
                      ? std::nullopt
                      : ReadAddress(root, "status", "127.0.0.1:7071");
}

void CheckListen(ConfigMap& root, const ServerConfig& config) {
  if (!config.insecure) {
    if (!config.tls.enabled() && !config.listen.host.empty()) {
      CheckReach(root, "listen", config.listen, "a tls section");
    }
    if (config.status.has_value()) CheckReach(root, "status", *config.status, "off");
  }
  const bool clash = config.status.has_value() && config.listen.port != 0 &&
                     config.listen.ToString() == config.status->ToString();
  if (clash) {
    root.ErrorHere("status", absl::StrCat("expected another address than listen, found ",
                                          config.status->ToString()));
  }
}

std::string ReadStateDir(ConfigMap& root) {
  const std::string path = root.String("state_dir");
  if (root.Has("state_dir") && path.empty()) {
    root.ErrorHere("state_dir", "expected a path, found \"\"");
  }
  return path;
}

absl::StatusOr<ServerConfig> FromDocument(ConfigDocument document, ServerFiles files) {
  ConfigMap root = document.Root();
  ServerConfig config;
  ReadListen(root, config);
  config.state_dir = ReadStateDir(root);
  config.insecure = root.Bool("insecure", false);
  config.tls = ReadTls(root);
  if (files == ServerFiles::kRead && config.tls.enabled()) {
    CheckTlsFiles(root.Map("tls"), config.tls);
  }
  config.heartbeat = root.Duration(
      "heartbeat", {absl::Milliseconds(100), absl::Minutes(10)}, absl::Seconds(5));
  config.strict_durability =
      root.OneOf("durability", {"relaxed", "strict"}, "relaxed") == "strict";
  config.keep = ReadKeep(root.Map("ledger"), root.Map("snapshots"));
  config.log = ReadLogging(root.Map("log"));
  CheckListen(root, config);
  TALLY_RETURN_IF_ERROR(document.Finish());
  config.resolved = document.Resolved();
  return config;
}

}  // namespace

absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path, ServerFiles files) {
  TALLY_ASSIGN_OR_RETURN(ConfigDocument document, ParseYaml(path));
  return FromDocument(std::move(document), files);
}

absl::StatusOr<ServerConfig> ParseServerConfig(const std::string& text, const std::string& name,
                                               ServerFiles files) {
  TALLY_ASSIGN_OR_RETURN(ConfigDocument document, ParseYamlText(text, name));
  return FromDocument(std::move(document), files);
}

}  // namespace tally
