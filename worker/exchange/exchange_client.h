// The worker's end of one Exchange stream: frames out, frames in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/frame.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct ReceivedFrame {
  v1::ServerFrame frame;
  Payload payload;
};

// Thread-safe.
class ExchangeClient {
 public:
  // Opens the stream and sends `attach`. Failures show in Receive.
  static std::unique_ptr<ExchangeClient> Open(std::shared_ptr<grpc::Channel> channel,
                                              const v1::Attach& attach);
  // Cancels the stream if it is still open and waits until gRPC has let go of it.
  ~ExchangeClient();

  // Never waits; dropped if the stream has ended, which Receive tells.
  void Send(const v1::WorkerFrame& frame, absl::Span<const grpc::Slice> payload = {});
  // Waits for the next frame. The stream's error once it has ended and all frames are taken;
  // nothing after a clean end.
  absl::StatusOr<std::optional<ReceivedFrame>> Receive();
  // Makes Receive return CANCELLED soon.
  void Cancel();
  bool ended() const;

  // The last round that the server has closed, as far as frames have come in, taken or not. Tells
  // a straggler that its contribution is no longer wanted.
  uint64_t latest_closed() const;

 private:
  class Stream;
  explicit ExchangeClient(std::shared_ptr<grpc::Channel> channel);
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace tally
