// Tally's own run of a job, its exchange stream and the worker's replica.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/base/stop_signals.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/sign_payload.h"
#include "common/rpc/channel.h"
#include "common/spec/defaults.h"
#include "common/update/history.h"
#include "proto/tally/v1/training.grpc.pb.h"
#include "server/ledger/record.h"
#include "server/ledger/snapshot.h"
#include "server/ledger/writer.h"
#include "server/round/job_run.h"
#include "server/round/planner.h"
#include "server/service/exchange_stream.h"
#include "tests/bench/catch_up/sides.h"
#include "tests/bench/serve.h"
#include "worker/exchange/exchange_client.h"
#include "worker/exchange/replica.h"

namespace tally::bench {
namespace {

constexpr uint64_t kBlocks = 14;
constexpr char kWorker[] = "late";

Layout MakeLayout(uint64_t parameters) {
  LayoutBuilder builder;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const std::vector<uint64_t> shape = {parameters / kBlocks + (i < parameters % kBlocks ? 1 : 0)};
    builder.AddBlock(absl::StrCat("block", i)).AddTensor(absl::StrCat("tensor", i), shape);
  }
  return *builder.Build();
}

v1::JobSpec MakeSpec(const MissedRounds& missed) {
  v1::JobSpec spec;
  spec.mutable_method()->set_name("distributed_lion");
  spec.mutable_method()->set_weight_decay(0.1);
  spec.mutable_learning_rate()->set_peak(1e-3);
  spec.mutable_workers()->set_count(1);
  spec.set_rounds(missed.rounds + 1000);
  spec.set_digest_every(missed.rounds + 1000);
  return WithDefaults(spec);
}

Bytes RandomVote(uint32_t count) {
  absl::BitGen random;
  std::vector<uint64_t> words((count + 63) / 64);
  for (uint64_t& word : words) word = absl::Uniform<uint64_t>(random);
  if (count % 64 != 0) words.back() &= (uint64_t{1} << (count % 64)) - 1;
  return WriteSignPayload(words, {});
}

absl::Status WriteRound(const Layout& layout, const v1::RoundSpec& spec, LedgerWriter& ledger,
                        uint64_t& history) {
  TALLY_ASSIGN_OR_RETURN(const ChunkGrid grid, GridForRound(layout, spec));
  std::vector<Bytes> votes;
  std::vector<uint64_t> digests;
  for (const Chunk& chunk : grid.chunks()) {
    votes.push_back(RandomVote(chunk.count));
    digests.push_back(Digest64(votes.back().data(), votes.back().size()));
  }
  v1::RoundClosed closed;
  closed.set_round(spec.round());
  closed.set_chunks(grid.size());
  closed.set_digest(DigestOfChunks(digests));
  closed.add_voters(0);
  history = RoundHistory(history, closed);
  closed.set_history(history);
  return ledger.Append(spec, closed, std::vector<ByteSpan>(votes.begin(), votes.end()));
}

class NoObserver final : public JobObserver {
  void OnState(v1::JobState, const std::string&) override {}
  void OnEvent(const std::string&, const std::string&, const std::string&) override {}
  void OnProgress(const std::function<void(v1::JobStatus&)>& change) override {
    v1::JobStatus status;
    change(status);
  }
  void OnRoundClosed(absl::Duration, uint64_t, uint64_t) override {}
  void OnWorkers(const std::vector<std::string>&) override {}
  void OnRefused(const std::string&) override {}
};

class ExchangeService final
    : public v1::TrainingService::WithRawCallbackMethod_Exchange<v1::TrainingService::Service> {
 public:
  explicit ExchangeService(std::shared_ptr<JobRun> run) : run_(std::move(run)) {}
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext*) override {
    auto stream = std::make_shared<ExchangeStream>(
        [run = run_](const std::string&) -> absl::StatusOr<std::shared_ptr<JobRun>> { return run; });
    auto* reactor = ExchangeStream::Start(stream);
    stream->BeginReading();
    return reactor;
  }

 private:
  const std::shared_ptr<JobRun> run_;
};

// Takes frames until the open round comes. False: the stream broke.
bool CatchUp(ExchangeClient& client, Replica& replica, bool apply) {
  for (;;) {
    const absl::StatusOr<std::optional<ReceivedFrame>> received = client.Receive();
    if (!received.ok() || !received->has_value()) return false;
    const v1::ServerFrame& frame = (*received)->frame;
    absl::Status status;
    if (frame.has_round()) return !apply || replica.Settle().ok();
    if (frame.has_past_round() && apply) {
      status = replica.BeginPastRound(frame.past_round(), (*received)->payload);
    } else if (frame.has_past_round()) {
      (void)(*received)->payload.Digest();
    }
    if (frame.has_closed()) status = apply ? replica.CloseRound(frame.closed()) : status;
    if (frame.has_chunk() && apply) {
      status = replica.TakeChunk(frame.chunk(), (*received)->payload);
    } else if (frame.has_chunk() && (*received)->payload.Digest() != frame.chunk().digest()) {
      return false;
    }
    if (!status.ok()) {
      std::fprintf(stderr, "joiner: %s\n", status.ToString().c_str());
      return false;
    }
  }
}

}  // namespace

absl::Status WriteMissedRounds(const MissedRounds& missed, const std::string& folder) {
  const Layout layout = MakeLayout(missed.parameters);
  TALLY_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/layout.pb", layout.ToProto().SerializeAsString()));
  TALLY_ASSIGN_OR_RETURN(const SnapshotStore snapshots,
                         SnapshotStore::Open(folder + "/snapshots", layout));
  TALLY_RETURN_IF_ERROR(snapshots.Write(0, std::vector<float>(layout.size()), {}, "{}"));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerWriter> ledger,
                         LedgerWriter::Open(folder + "/ledger", layout.digest()));
  TALLY_ASSIGN_OR_RETURN(const RoundPlanner planner,
                         RoundPlanner::Create(MakeSpec(missed), layout));
  std::optional<v1::RoundSpec> spec = planner.Next(nullptr);
  uint64_t history = 0;
  while (spec->round() <= missed.rounds) {
    TALLY_RETURN_IF_ERROR(WriteRound(layout, *spec, *ledger, history));
    spec = planner.Next(&*spec);
  }
  return ledger->Sync();
}

int ServeMissedRounds(const MissedRounds& missed, const std::string& folder) {
  StopSignals::Block();
  JobRunOptions options;
  options.job_id = "job";
  options.spec = MakeSpec(missed);
  options.folder = folder;
  options.workers = {kWorker};
  absl::StatusOr<std::shared_ptr<JobRun>> run =
      JobRun::Open(options, std::make_shared<NoObserver>());
  if (!run.ok()) {
    std::fprintf(stderr, "run: %s\n", run.status().ToString().c_str());
    return 1;
  }
  ExchangeService service(*run);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  return ServeUntilSigterm(builder);
}

int JoinLate(const MissedRounds& missed, const std::string& server, bool apply) {
  const Layout layout = MakeLayout(missed.parameters);
  std::vector<float> parameters(layout.size());
  Replica replica(layout, absl::MakeSpan(parameters));
  replica.AdoptBase();
  v1::Attach attach;
  attach.set_job_id("job");
  attach.set_worker(kWorker);
  attach.set_layout_digest(layout.digest());
  attach.set_has_parameters(true);
  const std::shared_ptr<grpc::Channel> channel = *CreateChannel(server, {});
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const absl::Time opened = absl::Now();
  const std::unique_ptr<ExchangeClient> client = ExchangeClient::Open(channel, attach);
  if (!CatchUp(*client, replica, apply)) return 1;
  std::printf("CAUGHT %.6f\n", absl::ToDoubleSeconds(absl::Now() - opened));
  return 0;
}

}  // namespace tally::bench
