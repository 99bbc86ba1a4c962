#include "server/service/open_streams.h"

#include <utility>

namespace tally {

void OpenStreams::Add(const std::shared_ptr<EndableStream>& stream) {
  std::optional<grpc::Status> ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = ended_;
    std::erase_if(streams_, [](const auto& other) { return other.expired(); });
    streams_.push_back(stream);
  }
  if (ended.has_value()) stream->End(*ended);
}

void OpenStreams::EndAll(const grpc::Status& status) {
  std::vector<std::weak_ptr<EndableStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = status;
    streams = std::exchange(streams_, {});
  }
  for (const auto& weak : streams) {
    if (const std::shared_ptr<EndableStream> stream = weak.lock()) stream->End(status);
  }
}

}  // namespace tally
