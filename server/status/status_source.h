// What the HTTP endpoint shows; implemented by the server, or by a test.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tally/v1/control.pb.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

struct StatusSnapshot {
  std::string version;
  std::string address;  // host:port of the gRPC services
  absl::Duration uptime = absl::ZeroDuration();
  std::vector<v1::JobStatus> jobs;  // newest first
  std::vector<v1::WorkerInfo> workers;
};

// Thread-safe.
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  virtual StatusSnapshot Get() = 0;
  // NOT_FOUND for an unknown job.
  virtual absl::StatusOr<v1::JobStatus> Job(const std::string& job_id) = 0;
  // OK, or why the server cannot do its work now.
  virtual absl::Status Health() = 0;
};

}  // namespace tally
