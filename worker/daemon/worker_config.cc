#include "worker/daemon/worker_config.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "common/config/logging_section.h"
#include "common/rpc/address.h"
#include "worker/data/data_source.h"

namespace tally {
namespace {

std::string HostName() {
  char name[65] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "worker";
}

constexpr char kNameRule[] = "expected 1 to 64 characters of A-Z, a-z, 0-9, '.', '_', '-'";

// What the server takes as a worker's name, and a job file as a data set's.
bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

void ReadName(ConfigMap& root, WorkerConfig& config) {
  config.name = root.String("name", HostName());
  if (IsName(config.name)) return;
  root.ErrorHere("name", absl::StrCat(kNameRule, ", found \"", config.name, "\""));
}

void ReadServer(ConfigMap& root, WorkerConfig& config) {
  config.server = root.String("server");
  if (!root.Has("server")) return;
  const absl::StatusOr<Address> address = ParseAddress(config.server);
  if (!address.ok()) return root.ErrorHere("server", address.status().message());
  if (address->port == 0) root.ErrorHere("server", "expected a port above 0, found 0");
}

void ReadDevice(ConfigMap& root, WorkerConfig& config) {
  config.device = root.String("device", "auto");
  absl::string_view number = config.device;
  int index = 0;
  const bool cuda = absl::ConsumePrefix(&number, "cuda:") && absl::SimpleAtoi(number, &index) &&
                    index >= 0;
  if (cuda || config.device == "auto" || config.device == "cpu") return;
  root.ErrorHere("device", absl::StrCat("expected auto, cpu or cuda:N, found ", config.device));
}

// A duration, or the word for an infinite one.
absl::Duration ReadDurationOr(ConfigMap& root, const std::string& key, const std::string& word,
                              const DurationRange& range, const std::string& fallback) {
  const std::string text = root.String(key, fallback);
  absl::Duration value;
  if (text == word) return absl::InfiniteDuration();
  if (absl::ParseDuration(text, &value) && Contains(range, value)) return value;
  if (!text.empty()) {  // otherwise it is a problem already
    root.ErrorHere(key, absl::StrCat("expected ", word, " or ", Describe(range), ", found ", text));
  }
  return absl::InfiniteDuration();
}

void ReadTimes(ConfigMap& root, WorkerConfig& config) {
  config.checkpoint_every = ReadDurationOr(root, "checkpoint_every", "off",
                                           {absl::Seconds(1), absl::Hours(24)}, "60s");
  config.reconnect_limit = ReadDurationOr(root, "reconnect_limit", "never",
                                          {absl::Seconds(1), absl::Hours(24 * 365)}, "never");
  config.stop_grace =
      root.Duration("stop_grace", {absl::ZeroDuration(), absl::Minutes(10)}, absl::Seconds(8));
}

void ReadData(ConfigMap& root, WorkerConfig& config) {
  for (auto& [name, map] : root.NamedMaps("data")) {
    if (!IsName(name)) {
      root.ErrorHere("data", absl::StrCat(kNameRule, " as a name, found \"", name, "\""));
    }
    WorkerDataSet& set = config.data[name];
    set.format = map.OneOf("format", DataFormats());
    set.path = map.String("path");
    set.shared = map.Bool("shared", true);
  }
  if (config.data.empty()) root.ErrorHere("data", "expected at least one data set, found none");
}

void ReadTls(ConfigMap& root, WorkerConfig& config) {
  if (!root.Has("tls")) return;
  ConfigMap tls = root.Map("tls");
  config.tls.ca = tls.String("ca");
  config.tls.certificate = tls.String("certificate", "");
  config.tls.key = tls.String("key", "");
  if (config.tls.certificate.empty() != config.tls.key.empty()) {
    tls.ErrorHere("certificate", "expected certificate and key together, found one of them");
  }
}

}  // namespace

absl::StatusOr<WorkerConfig> ReadWorkerConfig(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(ConfigDocument document, ParseYaml(path));
  ConfigMap root = document.Root();
  WorkerConfig config;
  ReadServer(root, config);
  ReadName(root, config);
  ReadDevice(root, config);
  config.threads = static_cast<int>(root.Int("threads", {0, 1024}, 0));
  config.state_dir = root.String("state_dir");
  ReadTimes(root, config);
  ReadData(root, config);
  config.labels = root.StringMap("labels", std::map<std::string, std::string>());
  ReadTls(root, config);
  config.log = ReadLogging(root.Map("log"));
  TALLY_RETURN_IF_ERROR(document.Finish());
  config.resolved = document.Resolved();
  return config;
}

}  // namespace tally
