#include "worker/exchange/exchange_client.h"

#include <atomic>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/duplex_stream.h"

namespace tally {
namespace {

constexpr char kExchange[] = "/tally.v1.TrainingService/Exchange";

}  // namespace

class ExchangeClient::Stream final
    : public DuplexStream<grpc::ByteBuffer, grpc::ByteBuffer, ReceivedFrame> {
 public:
  uint64_t latest_closed() const { return latest_closed_; }

 private:
  absl::StatusOr<ReceivedFrame> Accept(const grpc::ByteBuffer& incoming) override {
    ReceivedFrame received;
    TALLY_ASSIGN_OR_RETURN(received.payload, DecodeFrame(incoming, &received.frame));
    if (received.frame.has_closed()) latest_closed_ = received.frame.closed().round();
    return received;
  }
  size_t Weight(const ReceivedFrame& received) const override { return received.payload.size(); }

  std::atomic<uint64_t> latest_closed_{0};
};

ExchangeClient::ExchangeClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(std::make_unique<grpc::GenericStub>(std::move(channel))),
      stream_(std::make_unique<Stream>()) {}

std::unique_ptr<ExchangeClient> ExchangeClient::Open(std::shared_ptr<grpc::Channel> channel,
                                                     const v1::Attach& attach) {
  std::unique_ptr<ExchangeClient> client(new ExchangeClient(std::move(channel)));
  client->stub_->PrepareBidiStreamingCall(client->stream_->context(), kExchange, {},
                                          client->stream_.get());
  client->stream_->Begin();
  v1::WorkerFrame frame;
  *frame.mutable_attach() = attach;
  client->Send(frame);
  return client;
}

ExchangeClient::~ExchangeClient() { stream_->CancelAndWait(); }

void ExchangeClient::Send(const v1::WorkerFrame& frame, absl::Span<const grpc::Slice> payload) {
  stream_->Send(EncodeFrame(frame, payload));
}

absl::StatusOr<std::optional<ReceivedFrame>> ExchangeClient::Receive() {
  return stream_->Receive();
}

void ExchangeClient::Cancel() { stream_->Cancel(); }
bool ExchangeClient::ended() const { return stream_->ended(); }
uint64_t ExchangeClient::latest_closed() const { return stream_->latest_closed(); }

}  // namespace tally
