// The worker's configuration, worker.yaml; docs/operating.md lists the keys.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/logging.h"
#include "common/rpc/credentials.h"

namespace tally {

struct WorkerDataSet {
  std::string format;
  std::string path;
  bool shared = true;
};

struct WorkerConfig {
  std::string server;  // host:port
  std::string name;
  std::string device;  // as configured: auto, cpu or cuda:N
  std::map<std::string, WorkerDataSet> data;
  std::map<std::string, std::string> labels;
  std::string state_dir;
  absl::Duration checkpoint_every;  // infinite: off
  absl::Duration reconnect_limit;   // infinite: never
  absl::Duration stop_grace;
  int threads = 0;  // of LibTorch; 0: one a core
  TlsOptions tls;   // of `server`
  LoggingOptions log;
  std::string resolved;  // what is in effect, as YAML
};

// Every problem at once, each with "PATH:LINE: KEY: ".
absl::StatusOr<WorkerConfig> ReadWorkerConfig(const std::string& path);

}  // namespace tally
