// The worker's end of its Session stream.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "proto/tally/v1/training.grpc.pb.h"

namespace tally {

// Thread-safe.
class Session {
 public:
  // Opens the stream and says hello. Failures show in Receive.
  static std::shared_ptr<Session> Open(const std::shared_ptr<grpc::Channel>& channel,
                                       const v1::Hello& hello);
  ~Session();
  void Send(v1::SessionUp up);
  // Waits for the server's next word; its error, or nothing, after the stream's end.
  absl::StatusOr<std::optional<v1::SessionDown>> Receive();
  void Cancel();

 private:
  class Stream;
  explicit Session(const std::shared_ptr<grpc::Channel>& channel);
  std::unique_ptr<v1::TrainingService::Stub> stub_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace tally
