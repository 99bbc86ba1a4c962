#include "worker/daemon/check_machine.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/credentials.h"
#include "worker/data/data_source.h"

namespace tally {

// This build trains on the CPU.
absl::StatusOr<std::string> ChooseDevice(const std::string& configured) {
  if (configured == "auto" || configured == "cpu") return std::string("cpu");
  return absl::InvalidArgumentError(
      absl::StrCat("device: ", configured, ": this build of the worker has no CUDA"));
}

absl::Status CheckMachine(const WorkerConfig& config) {
  std::vector<std::string> problems;
  if (const auto device = ChooseDevice(config.device); !device.ok()) {
    problems.emplace_back(device.status().message());
  }
  for (const auto& [name, set] : config.data) {
    const auto opened = OpenDataSource({set.format, set.path});
    if (opened.ok()) continue;
    problems.push_back(absl::StrCat("data.", name, ": ", opened.status().message()));
  }
  if (const auto credentials = MakeChannelCredentials(config.tls); !credentials.ok()) {
    problems.push_back(absl::StrCat("tls: ", credentials.status().message()));
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
}

}  // namespace tally
