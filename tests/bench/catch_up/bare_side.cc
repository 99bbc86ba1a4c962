// The least that moves the same bytes: files read from the disk a mebibyte at a time, each a message.
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/stop_signals.h"
#include "common/rpc/channel.h"
#include "common/rpc/duplex_stream.h"
#include "common/wire/frame.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/service/pull_stream.h"
#include "tests/bench/catch_up/sides.h"
#include "tests/bench/serve.h"

namespace tally::bench {
namespace {

constexpr size_t kMessageBytes = 1 << 20;

std::vector<std::string> Files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/ledger")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class FileStream final : public PullStream<grpc::ServerGenericBidiReactor, grpc::ByteBuffer> {
 public:
  explicit FileStream(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  void OnReadDone(bool) override {}

 private:
  Pulled Pull() override {
    Pulled pulled;
    while (next_ < paths_.size()) {
      if (!file_.valid()) file_ = FileDescriptor(::open(paths_[next_].c_str(), O_RDONLY));
      std::vector<unsigned char> bytes(kMessageBytes);
      const ssize_t got = ::read(file_.get(), bytes.data(), bytes.size());
      if (got > 0) {
        bytes.resize(static_cast<size_t>(got));
        const grpc::Slice slice = OwnedSlice(std::move(bytes));
        pulled.message = grpc::ByteBuffer(&slice, 1);
        return pulled;
      }
      file_ = FileDescriptor();
      ++next_;
    }
    pulled.finish = grpc::Status::OK;
    return pulled;
  }

  const std::vector<std::string> paths_;
  size_t next_ = 0;
  FileDescriptor file_;
};

class FileService final : public grpc::CallbackGenericService {
 public:
  explicit FileService(std::string folder) : folder_(std::move(folder)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    auto stream = std::make_shared<FileStream>(Files(folder_));
    auto* reactor = FileStream::Start(stream);
    stream->Wake();
    return reactor;
  }

 private:
  const std::string folder_;
};

class BareClient final : public DuplexStream<grpc::ByteBuffer, grpc::ByteBuffer, size_t> {
  absl::StatusOr<size_t> Accept(const grpc::ByteBuffer& incoming) override {
    return incoming.Length();
  }
};

}  // namespace

uint64_t LedgerBytes(const std::string& folder) {
  uint64_t bytes = 0;
  for (const std::string& path : Files(folder)) bytes += std::filesystem::file_size(path);
  return bytes;
}

int StreamFiles(const std::string& folder) {
  StopSignals::Block();
  FileService service(folder);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  return ServeUntilSigterm(builder);
}

int ReceiveStream(const std::string& server) {
  const std::shared_ptr<grpc::Channel> channel = *CreateChannel(server, {});
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::GenericStub stub(channel);
  BareClient client;
  const absl::Time opened = absl::Now();
  stub.PrepareBidiStreamingCall(client.context(), "/bare/Files", {}, &client);
  client.Begin();
  for (;;) {
    const absl::StatusOr<std::optional<size_t>> received = client.Receive();
    if (!received.ok()) return 1;
    if (!received->has_value()) break;
  }
  std::printf("CAUGHT %.6f\n", absl::ToDoubleSeconds(absl::Now() - opened));
  return 0;
}

}  // namespace tally::bench
