#include "server/round/frames.h"

#include <utility>

#include "common/wire/frame.h"

namespace tally {
namespace {

grpc::ByteBuffer ChunkFrame(const v1::ChunkHeader& header, grpc::Slice payload) {
  v1::ServerFrame frame;
  *frame.mutable_chunk() = header;
  return EncodeFrame(frame, {std::move(payload)});
}

v1::ChunkHeader RoundChunk(uint64_t round, uint32_t index, uint64_t digest, uint32_t voters) {
  v1::ChunkHeader header;
  header.set_kind(v1::ROUND);
  header.set_round(round);
  header.set_index(index);
  header.set_digest(digest);
  header.set_voters(voters);
  return header;
}

}  // namespace

grpc::ByteBuffer AttachedFrame(bool send_base) {
  v1::ServerFrame frame;
  frame.mutable_attached()->set_send_base(send_base);
  return EncodeFrame(frame);
}

grpc::ByteBuffer HandBackFrame(uint64_t first, uint64_t last) {
  v1::ServerFrame frame;
  frame.mutable_hand_back()->set_first(first);
  frame.mutable_hand_back()->set_last(last);
  return EncodeFrame(frame);
}

grpc::ByteBuffer RoundFrame(const v1::RoundSpec& spec, uint64_t synced_round,
                            const v1::HeldChunks& held) {
  v1::ServerFrame frame;
  if (held.chunks() > 0) *frame.mutable_held() = held;
  *frame.mutable_round() = spec;
  frame.set_synced_round(synced_round);
  return EncodeFrame(frame);
}

grpc::ByteBuffer PastRoundFrame(const v1::RoundSpec& spec) {
  v1::ServerFrame frame;
  *frame.mutable_past_round() = spec;
  return EncodeFrame(frame);
}

grpc::ByteBuffer WholePastRoundFrame(const LedgerRound& round, std::shared_ptr<const void> owner) {
  v1::ServerFrame frame;
  *frame.mutable_past_round() = round.spec;
  return EncodeFrame(frame,
                     {SharedSlice(std::move(owner), round.chunks.data(), round.chunks.size())});
}

grpc::ByteBuffer AggregateFrame(uint64_t round, uint32_t index, const AggregateChunk& chunk) {
  return ChunkFrame(RoundChunk(round, index, chunk.digest, chunk.voters),
                    SharedSlice(chunk.payload, chunk.payload->data(), chunk.payload->size()));
}

grpc::ByteBuffer LedgerChunkFrame(const LedgerRound& round, uint32_t index,
                                  std::shared_ptr<const void> owner) {
  const ByteSpan payload = round.aggregates[index];
  const auto voters = static_cast<uint32_t>(round.closed.voters_size());
  return ChunkFrame(
      RoundChunk(round.spec.round(), index, round.chunk_digests[index], voters),
      SharedSlice(std::move(owner), payload.data(), payload.size()));
}

grpc::ByteBuffer ClosedFrame(const v1::RoundClosed& closed) {
  v1::ServerFrame frame;
  *frame.mutable_closed() = closed;
  return EncodeFrame(frame);
}

grpc::ByteBuffer RefusedFrame(uint64_t round, const std::string& reason) {
  v1::ServerFrame frame;
  frame.mutable_refused()->set_round(round);
  frame.mutable_refused()->set_reason(reason);
  return EncodeFrame(frame);
}

grpc::ByteBuffer TrialChunkFrame(uint64_t round, uint32_t index, const AggregateChunk& chunk) {
  v1::ChunkHeader header = RoundChunk(round, index, chunk.digest, chunk.voters);
  header.set_kind(v1::TRIAL);
  return ChunkFrame(header,
                    SharedSlice(chunk.payload, chunk.payload->data(), chunk.payload->size()));
}

grpc::ByteBuffer TrialFrame(const v1::Trial& trial) {
  v1::ServerFrame frame;
  *frame.mutable_trial() = trial;
  return EncodeFrame(frame);
}

grpc::ByteBuffer StopFrame(v1::JobState state, const std::string& reason) {
  v1::ServerFrame frame;
  frame.mutable_stop()->set_state(state);
  frame.mutable_stop()->set_reason(reason);
  return EncodeFrame(frame);
}

}  // namespace tally
