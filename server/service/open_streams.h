// Streams that stay open for as long as the other side likes; a server that stops ends them itself,
// so that it need not wait for its grace to be over.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status.h"

namespace tally {

class EndableStream {
 public:
  virtual ~EndableStream() = default;
  // Ends the stream after the message in flight. Any thread.
  virtual void End(const grpc::Status& status) = 0;
};

// Thread-safe.
class OpenStreams {
 public:
  // Ends it at once if EndAll was called before.
  void Add(const std::shared_ptr<EndableStream>& stream);
  void EndAll(const grpc::Status& status);

 private:
  absl::Mutex mutex_;
  std::optional<grpc::Status> ended_ ABSL_GUARDED_BY(mutex_);
  // Those that are gone leave at the next Add.
  std::vector<std::weak_ptr<EndableStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally
