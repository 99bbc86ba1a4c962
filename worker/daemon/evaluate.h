// Scores a model directory on the whole test split of a configured data set, without a server.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/daemon/worker_config.h"
#include "worker/model/model.h"

namespace tally {

struct EvaluateOptions {
  std::string model;  // a Hugging Face directory
  std::string architecture;
  std::string data_set;  // a name of the configuration's data section
};

absl::StatusOr<Score> EvaluateModel(const WorkerConfig& config, const EvaluateOptions& options);

}  // namespace tally
