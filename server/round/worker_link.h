// Where a worker's frames go: the service's stream, or a test's list.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"

namespace tally {

// What to write next on a stream. Neither set: nothing for now, Wake will come.
struct Outgoing {
  std::optional<grpc::ByteBuffer> frame;
  // Close the stream with this; nothing follows.
  std::optional<absl::Status> finish;
};

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // JobRun::Next has something. Called from any thread, with no lock held.
  virtual void Wake() = 0;
};

}  // namespace tally
