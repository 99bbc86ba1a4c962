// What of a worker's configuration this machine cannot do, before the daemon starts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/daemon/worker_config.h"

namespace tally {

// The device that `auto` or another word stands for. INVALID_ARGUMENT for one that this build
// cannot use.
absl::StatusOr<std::string> ChooseDevice(const std::string& configured);

// Opens every data set and the TLS files, and looks at the device. INVALID_ARGUMENT with every
// problem, one a line, each with its key, the file and what was expected. Connects to nothing.
absl::Status CheckMachine(const WorkerConfig& config);

}  // namespace tally
