#include "tests/worker/training_loop/fake_server.h"

#include <cstring>

#include "common/base/digest.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"
#include "common/rpc/address.h"
#include "common/rpc/server_builder.h"
#include "common/update/apply_round.h"
#include "common/update/history.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

const grpc::Status kEnded(grpc::StatusCode::UNAVAILABLE, "the stream has ended");

ByteSpan SpanOf(const std::string& bytes) {
  return ByteSpan(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

v1::ServerFrame ChunkFrame(v1::ChunkKind kind, uint64_t round, uint32_t index,
                           const std::string& payload) {
  v1::ServerFrame frame;
  v1::ChunkHeader* header = frame.mutable_chunk();
  header->set_kind(kind);
  header->set_round(round);
  header->set_index(index);
  header->set_digest(Digest64(payload));
  frame.set_payload(payload);
  return frame;
}

}  // namespace

void FakeServer::Start() {
  grpc::ServerBuilder builder;
  builder.RegisterService(this);
  auto running = StartServer(builder, *ParseAddress("127.0.0.1:0"), {});
  ASSERT_TRUE(running.ok()) << running.status();
  server_ = std::move(running->server);
  address_ = running->address.ToString();
}

FakeServer::~FakeServer() {
  if (server_ != nullptr) server_->Shutdown();
}

std::vector<std::string> FakeServer::LedgerDigests() const {
  std::vector<std::string> rounds;
  for (const FakeRound& round : ledger) {
    std::string bytes = round.spec.SerializeAsString() + round.closed.SerializeAsString();
    for (const std::string& chunk : round.chunks) bytes += chunk;
    rounds.push_back(DigestToString(Digest64(bytes)));
  }
  return rounds;
}

std::vector<float> FakeServer::ParametersAfter(uint64_t round) const {
  std::vector<float> parameters = base_;
  for (uint64_t r = 0; r < round; ++r) {
    std::vector<ByteSpan> chunks;
    for (const std::string& chunk : ledger[r].chunks) chunks.push_back(SpanOf(chunk));
    EXPECT_TRUE(
        ApplyRound(*layout_, ledger[r].spec, chunks, absl::MakeSpan(parameters), {}).ok());
  }
  return parameters;
}

grpc::Status FakeServer::Exchange(grpc::ServerContext*, Stream* stream) {
  absl::MutexLock lock(&one_stream_);
  return Serve(stream);
}

grpc::Status FakeServer::Serve(Stream* stream) {
  v1::WorkerFrame first;
  if (!stream->Read(&first) || !first.has_attach()) return kEnded;
  const v1::Attach attach = first.attach();
  attaches.push_back(attach);
  v1::ServerFrame attached;
  attached.mutable_attached()->set_send_base(!layout_.has_value());
  stream->Write(attached);
  uint64_t at = attach.has_parameters() ? attach.round() : 0;
  if (!layout_.has_value()) {
    if (const grpc::Status taken = TakeBase(stream); !taken.ok()) return taken;
  } else if (sends_snapshots || !attach.has_parameters() ||
             (at <= ledger.size() && attach.history() != HistoryAfter(at))) {
    SendSnapshot(stream);
    at = ledger.size();
  }
  if (at > ledger.size() && asks_for_lost_rounds) {
    if (const grpc::Status taken = TakeBack(stream, at); !taken.ok()) return taken;
  }
  for (; at < ledger.size(); ++at) SendPast(stream, ledger[at]);
  while (ledger.size() < rounds_) {
    if (const grpc::Status done = DoRound(stream); !done.ok()) return done;
  }
  v1::ServerFrame stop;
  stop.mutable_stop()->set_state(v1::SUCCEEDED);
  stream->Write(stop);
  return grpc::Status::OK;
}

grpc::Status FakeServer::TakeBase(Stream* stream) {
  v1::WorkerFrame frame;
  std::vector<float> base;
  while (stream->Read(&frame) && !frame.has_base_end()) {
    if (frame.has_base_begin()) {
      layout_ = *Layout::FromProto(frame.base_begin().layout());
      continue;
    }
    const size_t at = base.size();
    base.resize(at + frame.payload().size() / sizeof(float));
    std::memcpy(base.data() + at, frame.payload().data(), frame.payload().size());
  }
  if (!frame.has_base_end()) return kEnded;
  base_ = std::move(base);
  return grpc::Status::OK;
}

void FakeServer::SendSnapshot(Stream* stream) {
  const std::vector<float> parameters = ParametersAfter(ledger.size());
  v1::ServerFrame begin;
  begin.mutable_snapshot()->set_round(ledger.size());
  begin.mutable_snapshot()->set_history(HistoryAfter(ledger.size()));
  stream->Write(begin);
  const ChunkGrid grid = DenseGrid(*layout_);
  for (uint32_t i = 0; i < grid.size(); ++i) {
    const std::string payload(reinterpret_cast<const char*>(parameters.data() + grid[i].first),
                              grid[i].count * sizeof(float));
    stream->Write(ChunkFrame(v1::PARAMETERS, ledger.size(), i, payload));
  }
  v1::ServerFrame end;
  end.mutable_snapshot_end()->set_round(ledger.size());
  end.mutable_snapshot_end()->set_chunks(grid.size());
  end.mutable_snapshot_end()->set_parameters_digest(ParametersDigest(*layout_, parameters));
  stream->Write(end);
}

grpc::Status FakeServer::TakeBack(Stream* stream, uint64_t last) {
  v1::ServerFrame ask;
  ask.mutable_hand_back()->set_first(ledger.size() + 1);
  ask.mutable_hand_back()->set_last(last);
  stream->Write(ask);
  FakeRound round;
  v1::WorkerFrame frame;
  while (ledger.size() < last) {
    if (!stream->Read(&frame)) return kEnded;
    if (frame.has_past_round()) round = {frame.past_round(), {}, {}};
    if (frame.has_chunk()) {
      EXPECT_EQ(frame.chunk().index(), round.chunks.size());
      EXPECT_EQ(frame.chunk().digest(), Digest64(frame.payload()));
      round.chunks.push_back(frame.payload());
    }
    if (!frame.has_closed()) continue;
    round.closed = frame.closed();
    EXPECT_EQ(round.closed.round(), ledger.size() + 1);
    ledger.push_back(round);
    ++handed_back;
  }
  return grpc::Status::OK;
}

void FakeServer::SendChunks(Stream* stream, const FakeRound& round) {
  for (uint32_t i = 0; i < round.chunks.size(); ++i) {
    stream->Write(ChunkFrame(v1::ROUND, round.spec.round(), i, round.chunks[i]));
  }
  v1::ServerFrame closed;
  *closed.mutable_closed() = round.closed;
  stream->Write(closed);
}

void FakeServer::SendPast(Stream* stream, const FakeRound& round) {
  v1::ServerFrame past;
  *past.mutable_past_round() = round.spec;
  stream->Write(past);
  SendChunks(stream, round);
}

v1::RoundSpec FakeServer::SpecOf(uint64_t round) const {
  v1::RoundSpec spec;
  spec.set_round(round);
  spec.set_step(round);
  spec.set_reduction("majority");
  spec.set_update_rule("sign_step");
  spec.set_learning_rate(0.01);
  spec.set_weight_decay(0.1);
  spec.set_beta1(0.9);
  spec.set_beta2(0.99);
  spec.set_chunk_elements(64);
  spec.set_tie_key(round * 1000);
  spec.set_compare_digest(true);
  spec.set_evaluate(round == 2);
  return spec;
}

std::optional<std::map<uint32_t, std::string>> FakeServer::TakeContribution(Stream* stream,
                                                                            uint64_t round) {
  std::map<uint32_t, std::string> payloads;
  v1::WorkerFrame frame;
  while (stream->Read(&frame)) {
    if (frame.has_parameters()) digests.push_back(frame.parameters());
    if (frame.has_evaluation()) evaluations.push_back(frame.evaluation());
    if (frame.has_chunk() && frame.chunk().round() == round) {
      payloads[frame.chunk().index()] = frame.payload();
    }
    if (frame.has_end() && frame.end().round() == round) {
      EXPECT_EQ(frame.end().chunks(), payloads.size());
      return payloads;
    }
  }
  return std::nullopt;
}

FakeRound FakeServer::Close(const v1::RoundSpec& spec,
                            const std::map<uint32_t, std::string>& votes) const {
  FakeRound round{spec, {}, {}};
  const ChunkGrid grid = *GridForRound(*layout_, spec);
  const Reduction* reduction = *FindReduction(spec.reduction());
  Digester digester;
  for (const auto& [index, vote] : votes) {
    const Chunk& chunk = grid[index];
    const absl::StatusOr<Bytes> aggregate = reduction->Reduce(
        {chunk.first_lane, chunk.count, spec.tie_key(), spec.zero_ties()}, {{SpanOf(vote), 1}});
    EXPECT_TRUE(aggregate.ok()) << aggregate.status();
    round.chunks.emplace_back(aggregate->begin(), aggregate->end());
    digester.AddUint64(Digest64(round.chunks.back()));
  }
  round.closed.set_round(spec.round());
  round.closed.set_chunks(grid.size());
  round.closed.set_digest(digester.Finish());
  round.closed.set_history(RoundHistory(HistoryAfter(spec.round() - 1), round.closed));
  return round;
}

grpc::Status FakeServer::DoRound(Stream* stream) {
  const v1::RoundSpec spec = SpecOf(ledger.size() + 1);
  v1::ServerFrame open;
  *open.mutable_round() = spec;
  open.set_synced_round(synced_round);
  stream->Write(open);
  const auto votes = TakeContribution(stream, spec.round());
  if (!votes.has_value()) return kEnded;
  if (const auto hook = on_contribution.find(spec.round()); hook != on_contribution.end()) {
    const Hook run = std::move(hook->second);
    on_contribution.erase(hook);
    if (const grpc::Status status = run(stream); !status.ok()) return status;
  }
  ledger.push_back(Close(spec, *votes));
  SendChunks(stream, ledger.back());
  return grpc::Status::OK;
}

}  // namespace tally::testing
