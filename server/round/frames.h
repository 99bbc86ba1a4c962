// The server's frames from the things they carry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "grpcpp/support/byte_buffer.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/reader.h"
#include "server/round/open_round.h"

namespace tally {

grpc::ByteBuffer AttachedFrame(bool send_base);
// `synced_round`: rounds up to it are on the disk. `held`: of the receiver's contribution.
grpc::ByteBuffer RoundFrame(const v1::RoundSpec& spec, uint64_t synced_round,
                            const v1::HeldChunks& held = {});
grpc::ByteBuffer HandBackFrame(uint64_t first, uint64_t last);
grpc::ByteBuffer PastRoundFrame(const v1::RoundSpec& spec);
// With all of its chunks as payload; `owner` keeps their bytes alive.
grpc::ByteBuffer WholePastRoundFrame(const LedgerRound& round, std::shared_ptr<const void> owner);
// The payload is shared, not copied.
grpc::ByteBuffer AggregateFrame(uint64_t round, uint32_t index, const AggregateChunk& chunk);
// The same of a round read back; `owner` keeps its bytes alive.
grpc::ByteBuffer LedgerChunkFrame(const LedgerRound& round, uint32_t index,
                                  std::shared_ptr<const void> owner);
grpc::ByteBuffer ClosedFrame(const v1::RoundClosed& closed);
grpc::ByteBuffer RefusedFrame(uint64_t round, const std::string& reason);
grpc::ByteBuffer TrialChunkFrame(uint64_t round, uint32_t index, const AggregateChunk& chunk);
grpc::ByteBuffer TrialFrame(const v1::Trial& trial);
grpc::ByteBuffer StopFrame(v1::JobState state, const std::string& reason);

}  // namespace tally
