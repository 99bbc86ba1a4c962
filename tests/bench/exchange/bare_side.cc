// The least that moves the same bytes: each worker sends its messages, and when all have sent message
// i, a message made beforehand goes back to all. No vote, no digest, no ledger.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/stop_signals.h"
#include "common/rpc/channel.h"
#include "common/rpc/duplex_stream.h"
#include "common/wire/frame.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/service/pull_stream.h"
#include "tests/bench/exchange/sides.h"
#include "tests/bench/serve.h"

namespace tally::bench {
namespace {

constexpr uint64_t kMessageBytes = 1 << 20;

// Sizes of one round's messages in one direction: those of Tally's 14 blocks.
std::vector<uint64_t> MessageSizes(const Size& size) {
  constexpr uint64_t kBlocks = 14;
  std::vector<uint64_t> sizes;
  for (uint64_t block = 0; block < kBlocks; ++block) {
    for (uint64_t left = size.parameters / kBlocks * size.bits() / 8 + 1; left > 0;) {
      sizes.push_back(std::min(left, kMessageBytes));
      left -= sizes.back();
    }
  }
  return sizes;
}

std::vector<grpc::ByteBuffer> MakeMessages(const Size& of) {
  std::vector<grpc::ByteBuffer> messages;
  grpc::Slice slice;  // shared by those of one size
  for (const uint64_t size : MessageSizes(of)) {
    if (slice.size() != size) slice = OwnedSlice(std::vector<unsigned char>(size, 0x5A));
    messages.emplace_back(&slice, 1);
  }
  return messages;
}

class BareStream;

// Who has sent how much; replies go to all.
class Hub {
 public:
  explicit Hub(const Size& size) : size_(size), replies_(MakeMessages(size)) {}
  // The stream's number.
  size_t Join(const std::shared_ptr<BareStream>& stream);
  void OnMessage(size_t stream);

 private:
  const Size size_;
  const std::vector<grpc::ByteBuffer> replies_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<BareStream>> streams_;
  std::vector<uint64_t> received_;  // messages, by stream
  uint64_t replied_ = 0;
};

class BareStream final
    : public PullStream<grpc::ServerGenericBidiReactor, grpc::ByteBuffer> {
 public:
  explicit BareStream(Hub* hub) : hub_(hub) {}
  void BeginReading(size_t number) {
    number_ = number;
    StartRead(&incoming_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return FinishWith(grpc::Status::OK);
    hub_->OnMessage(number_);
    StartRead(&incoming_);
  }
  void Push(const grpc::ByteBuffer& reply) {
    {
      absl::MutexLock lock(&mutex_);
      outbox_.push_back(reply);
    }
    Wake();
  }

 private:
  Pulled Pull() override {
    absl::MutexLock lock(&mutex_);
    Pulled pulled;
    if (outbox_.empty()) return pulled;
    pulled.message = std::move(outbox_.front());
    outbox_.pop_front();
    return pulled;
  }

  Hub* const hub_;
  size_t number_ = 0;
  grpc::ByteBuffer incoming_;
  absl::Mutex mutex_;
  std::deque<grpc::ByteBuffer> outbox_;
};

size_t Hub::Join(const std::shared_ptr<BareStream>& stream) {
  absl::MutexLock lock(&mutex_);
  streams_.push_back(stream);
  received_.push_back(0);
  return streams_.size() - 1;
}

void Hub::OnMessage(size_t stream) {
  std::vector<std::shared_ptr<BareStream>> streams;
  grpc::ByteBuffer reply;
  {
    absl::MutexLock lock(&mutex_);
    ++received_[stream];
    const bool all = streams_.size() == size_.workers &&
                     *std::min_element(received_.begin(), received_.end()) > replied_;
    if (!all) return;
    reply = replies_[replied_++ % replies_.size()];
    streams = streams_;
  }
  for (const std::shared_ptr<BareStream>& receiver : streams) receiver->Push(reply);
}

class BareService final : public grpc::CallbackGenericService {
 public:
  explicit BareService(Hub* hub) : hub_(hub) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    auto stream = std::make_shared<BareStream>(hub_);
    auto* reactor = BareStream::Start(stream);
    stream->BeginReading(hub_->Join(stream));
    return reactor;
  }

 private:
  Hub* const hub_;
};

class BareClient final : public DuplexStream<grpc::ByteBuffer, grpc::ByteBuffer, size_t> {
  absl::StatusOr<size_t> Accept(const grpc::ByteBuffer& incoming) override {
    return incoming.Length();
  }
};

}  // namespace

int RunBareServer(const Size& size) {
  StopSignals::Block();
  Hub hub(size);
  BareService service(&hub);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  return ServeUntilSigterm(builder);
}

int RunBareWorker(const Size& size, const std::string& server) {
  const std::vector<grpc::ByteBuffer> messages = MakeMessages(size);
  grpc::GenericStub stub(*CreateChannel(server, {}));
  BareClient client;
  stub.PrepareBidiStreamingCall(client.context(), "/bare/Exchange", {}, &client);
  client.Begin();
  for (uint32_t round = 0; round < size.rounds; ++round) {
    const absl::Time opened = absl::Now();
    for (const grpc::ByteBuffer& message : messages) client.Send(message);
    for (size_t i = 0; i < messages.size(); ++i) {
      const auto reply = client.Receive();
      if (!reply.ok() || !reply->has_value()) return 1;
    }
    std::printf("ROUND %.6f\n", absl::ToDoubleSeconds(absl::Now() - opened));
    std::fflush(stdout);
  }
  client.CancelAndWait();
  return 0;
}

}  // namespace tally::bench
