// Tally's own server and the worker's side of the exchange, with votes encoded beforehand.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/logging.h"
#include "common/base/stop_signals.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/sign_payload.h"
#include "common/rpc/channel.h"
#include "common/wire/frame.h"
#include "proto/tally/v1/control.grpc.pb.h"
#include "proto/tally/v1/training.grpc.pb.h"
#include "server/app/server.h"
#include "tests/bench/exchange/sides.h"
#include "worker/exchange/exchange_client.h"
#include "worker/exchange/replica.h"

namespace tally::bench {
namespace {

constexpr uint64_t kBlocks = 14;

std::string WorkerName(uint32_t index) { return absl::StrCat("bench-", index); }

// Embeddings, twelve layers and a head of equal size.
Layout MakeLayout(uint64_t parameters) {
  LayoutBuilder builder;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const std::vector<uint64_t> shape = {parameters / kBlocks + (i < parameters % kBlocks ? 1 : 0)};
    builder.AddBlock(absl::StrCat("block", i)).AddTensor(absl::StrCat("tensor", i), shape);
  }
  return *builder.Build();
}

Bytes RandomVote(uint32_t count) {
  absl::BitGen random;
  std::vector<uint64_t> words((count + 63) / 64);
  for (uint64_t& word : words) word = absl::Uniform<uint64_t>(random);
  if (count % 64 != 0) words.back() &= (uint64_t{1} << (count % 64)) - 1;
  return WriteSignPayload(words, {});
}

Bytes RandomDelta(uint32_t count, ValueDtype dtype) {
  absl::BitGen random;
  std::vector<float> values(count);
  for (float& value : values) value = absl::Uniform<float>(random, -1, 1);
  return WriteDense(values, dtype);
}

// What a frame takes on the connection: message, gRPC's prefix, HTTP/2's frame headers.
uint64_t WireBytes(const google::protobuf::MessageLite& frame, size_t payload) {
  const uint64_t message = frame.ByteSizeLong() + payload + (payload > 0 ? 5 : 0) + 5;
  return message + 9 * (message / 16384 + 1);
}

class BenchWorker {
 public:
  BenchWorker(const Size& size, uint32_t index)
      : size_(size), index_(index), layout_(MakeLayout(size.parameters)) {}

  int Run(const std::string& server) {
    channel_ = *CreateChannel(server, {});
    const std::string job = WaitForAssignment();
    if (size_.apply) parameters_.resize(layout_.size());
    replica_.emplace(layout_, absl::MakeSpan(parameters_));
    v1::Attach attach;
    attach.set_job_id(job);
    attach.set_worker(WorkerName(index_));
    attach.set_layout_digest(layout_.digest());
    *attach.mutable_layout() = layout_.ToProto();
    client_ = ExchangeClient::Open(channel_, attach);
    while (closed_rounds_ < size_.rounds) {
      absl::StatusOr<std::optional<ReceivedFrame>> received = client_->Receive();
      if (!received.ok() || !received->has_value() || !OnFrame(**received)) return Broken(received);
    }
    const double scale = 8.0 / static_cast<double>(size_.parameters) / size_.rounds;
    std::printf("BITS %.6f %.6f\n", static_cast<double>(up_) * scale,
                static_cast<double>(down_) * scale);
    std::fflush(stdout);
    return 0;
  }

 private:
  int Broken(const absl::StatusOr<std::optional<ReceivedFrame>>& received) {
    std::fprintf(stderr, "worker %u: the exchange broke: %s\n", index_,
                 received.status().ToString().c_str());
    return 1;
  }

  std::string WaitForAssignment() {
    stub_ = v1::TrainingService::NewStub(channel_);
    session_ = stub_->Session(&context_);
    v1::SessionUp up;
    up.mutable_hello()->set_name(WorkerName(index_));
    up.mutable_hello()->set_instance("bench");
    up.mutable_hello()->set_device("cpu");
    up.mutable_hello()->add_architectures("bench");
    up.mutable_hello()->add_data_sets()->set_name("bench");
    session_->Write(up);
    v1::SessionDown down;
    while (session_->Read(&down)) {
      if (down.has_assignment()) return down.assignment().job_id();
    }
    return "";
  }

  bool OnFrame(const ReceivedFrame& received) {
    const v1::ServerFrame& frame = received.frame;
    if (counting_) down_ += WireBytes(frame, received.payload.size());
    if (frame.has_attached() && frame.attached().send_base()) return SendBase();
    if (frame.has_snapshot()) return !size_.apply || replica_->BeginSnapshot(frame.snapshot()).ok();
    if (frame.has_snapshot_end()) {
      return !size_.apply || replica_->EndSnapshot(frame.snapshot_end()).ok();
    }
    if (frame.has_round()) return OnRound(frame.round());
    if (frame.has_chunk()) return OnChunk(received);
    if (frame.has_closed()) return OnClosed(frame.closed());
    return true;
  }

  bool SendBase() {
    v1::WorkerFrame begin;
    *begin.mutable_base_begin()->mutable_layout() = layout_.ToProto();
    begin.mutable_base_begin()->set_config_json("{}");
    client_->Send(begin);
    const ChunkGrid grid = DenseGrid(layout_);
    Digester digester;
    for (uint32_t i = 0; i < grid.size(); ++i) {
      const Bytes zeros(grid[i].count * sizeof(float));
      v1::WorkerFrame frame;
      frame.mutable_chunk()->set_kind(v1::PARAMETERS);
      frame.mutable_chunk()->set_index(i);
      frame.mutable_chunk()->set_digest(Digest64(zeros.data(), zeros.size()));
      digester.AddUint64(frame.chunk().digest());
      client_->Send(frame, {OwnedSlice(zeros)});
    }
    v1::WorkerFrame end;
    end.mutable_base_end()->set_chunks(grid.size());
    end.mutable_base_end()->set_digest(digester.Finish());
    client_->Send(end);
    replica_->AdoptBase();
    return true;
  }

  bool OnRound(const v1::RoundSpec& spec) {
    if (votes_.empty()) Prepare(spec);
    if (size_.apply && !replica_->BeginRound(spec).ok()) return false;
    aggregate_digests_.assign(grid_.size(), 0);
    counting_ = true;
    opened_ = absl::Now();
    Digester digester;
    for (uint32_t i = 0; i < grid_.size(); ++i) {
      v1::WorkerFrame frame;
      frame.mutable_chunk()->set_kind(v1::ROUND);
      frame.mutable_chunk()->set_round(spec.round());
      frame.mutable_chunk()->set_index(i);
      frame.mutable_chunk()->set_digest(Digest64(votes_[i]->data(), votes_[i]->size()));
      digester.AddUint64(frame.chunk().digest());
      Send(frame, SharedSlice(votes_[i], votes_[i]->data(), votes_[i]->size()));
    }
    v1::WorkerFrame end;
    end.mutable_end()->set_round(spec.round());
    end.mutable_end()->set_chunks(grid_.size());
    end.mutable_end()->set_digest(digester.Finish());
    end.mutable_end()->set_samples(1);
    Send(end, {});
    return true;
  }

  void Send(const v1::WorkerFrame& frame, const grpc::Slice& payload) {
    up_ += WireBytes(frame, payload.size());
    if (payload.size() > 0) return client_->Send(frame, {payload});
    client_->Send(frame);
  }

  void Prepare(const v1::RoundSpec& spec) {
    grid_ = *GridForRound(layout_, spec);
    for (const Chunk& chunk : grid_.chunks()) {
      // Deltas are large: chunks of one size share theirs.
      const bool shared = spec.local_steps() > 0 && !votes_.empty() && chunk.count == last_count_;
      last_count_ = chunk.count;
      if (shared) {
        votes_.push_back(votes_.back());
      } else {
        votes_.push_back(std::make_shared<const Bytes>(
            spec.local_steps() > 0 ? RandomDelta(chunk.count, *FindValueDtype(spec.dtype()))
                                   : RandomVote(chunk.count)));
      }
    }
  }

  bool OnChunk(const ReceivedFrame& received) {
    const v1::ChunkHeader& header = received.frame.chunk();
    if (size_.apply) return replica_->TakeChunk(header, received.payload).ok();
    if (header.kind() != v1::ROUND) return true;
    aggregate_digests_[header.index()] = received.payload.Digest();
    return aggregate_digests_[header.index()] == header.digest();
  }

  bool OnClosed(const v1::RoundClosed& closed) {
    const double seconds = absl::ToDoubleSeconds(absl::Now() - opened_);
    Digester digester;
    for (const uint64_t digest : aggregate_digests_) digester.AddUint64(digest);
    if (!size_.apply && digester.Finish() != closed.digest()) return false;
    if (size_.apply && !replica_->CloseRound(closed).ok()) return false;
    ++closed_rounds_;
    std::printf("ROUND %.6f\n",
                size_.apply ? absl::ToDoubleSeconds(absl::Now() - opened_) : seconds);
    std::fflush(stdout);
    return true;
  }

  const Size size_;
  const uint32_t index_;
  const Layout layout_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainingService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionUp, v1::SessionDown>> session_;
  std::unique_ptr<ExchangeClient> client_;
  std::vector<float> parameters_;
  std::optional<Replica> replica_;
  ChunkGrid grid_;
  std::vector<std::shared_ptr<const Bytes>> votes_;
  std::vector<uint64_t> aggregate_digests_;
  absl::Time opened_;
  bool counting_ = false;
  uint32_t closed_rounds_ = 0;
  uint32_t last_count_ = 0;
  uint64_t up_ = 0;
  uint64_t down_ = 0;
};

}  // namespace

int RunTallyServer(const std::string& state_dir) {
  (void)StartLogging({"error", "text"}, "exchange_bench");
  StopSignals::Block();
  absl::StatusOr<ServerConfig> config = ParseServerConfig(
      absl::StrCat("listen: \"127.0.0.1:0\"\nstatus: \"off\"\nheartbeat: 10m\nstate_dir: ",
                   state_dir, "\n"),
      "bench");
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*config);
  if (!server.ok()) return 1;
  std::printf("PORT %u\n", (*server)->address().port);
  std::fflush(stdout);
  absl::Notification stop;
  const StopSignals signals([&] { stop.Notify(); });
  stop.WaitForNotification();
  return 0;
}

int RunTallyWorker(const Size& size, const std::string& server, uint32_t index) {
  BenchWorker worker(size, index);
  const int code = worker.Run(server);
  // The session's stream is still open; the process ends and the server sees it close.
  std::_Exit(code);
}

namespace {

void SetMethod(const Size& size, v1::MethodSpec& method) {
  if (size.method == "vote") {
    method.set_name("distributed_lion");
    method.set_beta1(0.9);
    method.set_beta2(0.99);
    return;
  }
  method.set_name("lofi");
  method.mutable_local()->set_steps(1);
  method.mutable_local()->set_optimiser("sgd");
  method.mutable_local()->set_dtype(size.method);
  method.mutable_local()->set_weights("uniform");
  method.mutable_lofi()->set_outer("sgd");
  method.mutable_lofi()->set_outer_learning_rate(1);
  method.mutable_lofi()->set_soup("uniform");
}

}  // namespace

int SubmitTallyJob(const Size& size, const std::string& server) {
  const auto stub = v1::JobService::NewStub(*CreateChannel(server, {}));
  v1::SubmitJobRequest request;
  request.set_token("bench");
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name("bench");
  spec.mutable_model()->set_architecture("bench");
  spec.mutable_model()->set_config_json("{}");
  spec.mutable_data()->set_name("bench");
  SetMethod(size, *spec.mutable_method());
  spec.mutable_learning_rate()->set_peak(1e-3);
  spec.mutable_workers()->set_count(size.workers);
  spec.set_rounds(size.rounds);
  spec.set_batch_size(1);
  spec.set_digest_every(size.rounds);
  grpc::ClientContext context;
  v1::SubmitJobResponse response;
  const grpc::Status status = stub->SubmitJob(&context, request, &response);
  if (!status.ok()) std::fprintf(stderr, "submit: %s\n", status.error_message().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace tally::bench
