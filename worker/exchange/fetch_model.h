#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

namespace tally {

// The folder, below `cache`, of the base model with that digest; fetched from the server unless it
// is there already. Whole or absent.
absl::StatusOr<std::string> FetchModel(const std::shared_ptr<grpc::Channel>& channel,
                                       const std::string& digest, const std::string& cache);

}  // namespace tally
