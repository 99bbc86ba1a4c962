// The one place where absl::Status meets grpc::Status. Their codes are the same numbers.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace tally {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace tally
