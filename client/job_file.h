// The job file that people write (docs/job-file.md) as the spec that is submitted.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

struct JobFile {
  // Every default filled in; model.base_digest is empty yet, also with a base.
  v1::JobSpec spec;
  // The base model's directory, relative to the working directory or absolute. Empty: none.
  std::string base;
  // What is in effect, as YAML.
  std::string resolved;
};

// INVALID_ARGUMENT with every problem, each as "PATH:LINE: KEY: expected ..., found ...".
absl::StatusOr<JobFile> ReadJobFile(const std::string& path);

}  // namespace tally
