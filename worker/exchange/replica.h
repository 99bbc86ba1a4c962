// The worker's copy of the job's parameters: a snapshot, then round after round, exactly as the
// server's fold. Spans only; who owns the memory (FlatParameters, on whatever device) is not its
// business. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "common/reduction/reduction.h"
#include "common/update/mask.h"
#include "common/wire/frame.h"
#include "proto/tally/v1/training.pb.h"
#include "worker/exchange/held_rounds.h"

namespace tally {

class Replica {
 public:
  // `parameters` has layout.size() elements and outlives the replica.
  Replica(Layout layout, absl::Span<float> parameters)
      : layout_(std::move(layout)), dense_(DenseGrid(layout_)), parameters_(parameters) {}

  // The round whose parameters it holds; none before a snapshot or base.
  std::optional<uint64_t> round() const { return round_; }
  // RoundClosed.history of that round; 0 for the base.
  uint64_t history() const { return history_; }
  // The update rule's state, each array as large as the parameters.
  const std::vector<std::vector<float>>& state() const { return state_; }
  // The mask in force; null if there is none.
  const MaskPointer& mask() const { return mask_; }
  uint64_t digest() const { return ParametersDigest(layout_, parameters_); }
  // Of the whole and of each block.
  v1::ParametersDigest DigestsOfParameters() const;
  // Closed rounds since the last snapshot or base, as far as they are held.
  const HeldRounds& held() const { return held_; }
  // Rounds up to this one are on the server's disk.
  void DropHeld(uint64_t synced_round) { held_.DropUpTo(synced_round); }

  // The parameters as they lie in memory are the base, round 0.
  void AdoptBase();
  // They are those of `round`, with that state and mask. INVALID_ARGUMENT for arrays of another size.
  absl::Status Adopt(uint64_t round, uint64_t history, std::vector<std::vector<float>> state,
                     MaskPointer mask = nullptr);
  // Its parameters are not the ledger's: a snapshot is needed.
  void Invalidate();

  absl::Status BeginSnapshot(const v1::SnapshotBegin& begin);
  absl::Status EndSnapshot(const v1::SnapshotEnd& end);
  // The open round, that aggregate chunks are to come for. All rounds before it are applied.
  absl::Status BeginRound(const v1::RoundSpec& spec);
  // A round that closed while the worker was away. `chunks`: all of them (docs/wire-format.md), or
  // empty if they are to come one by one. Such rounds are applied several at a time.
  absl::Status BeginPastRound(const v1::RoundSpec& spec, const Payload& chunks);
  // Applies the past rounds that are closed and wait for others. To be called before anybody looks at
  // the parameters outside a round. After an error round() is the last one applied.
  absl::Status Settle();
  // A chunk of the snapshot or of the round, whichever has begun; checked against its digest.
  absl::Status TakeChunk(const v1::ChunkHeader& header, const Payload& payload);
  // Applies the round. DATA_LOSS if chunks are missing, their digest is not the server's, or the
  // server's history is not this replica's; the parameters are unchanged then. Nothing of a round is
  // applied before it is closed: a server that crashes in the middle may decide it anew.
  absl::Status CloseRound(const v1::RoundClosed& closed);

  // The grid of the round that has begun.
  const ChunkGrid& grid() const { return grid_; }
  const v1::RoundSpec& spec() const { return spec_; }

 private:
  absl::Status TakeDense(const v1::ChunkHeader& header, const Payload& payload);
  absl::Status TakeMask(const v1::ChunkHeader& header, const Payload& payload);
  absl::Status TakeAggregate(const v1::ChunkHeader& header, const Payload& payload);
  absl::Status CheckClosed(const v1::RoundClosed& closed) const;
  absl::Status Begin(const v1::RoundSpec& spec);
  absl::Status TakeChunks(const Bytes& chunks);
  absl::Status ApplyWaiting();
  void ForgetWaiting();
  bool MoreMayWait() const;

  struct ClosedRound {
    v1::RoundSpec spec;
    v1::RoundClosed closed;
    std::vector<Bytes> chunks;
    uint64_t history_before = 0;
  };

  Layout layout_;
  ChunkGrid dense_;
  absl::Span<float> parameters_;
  std::vector<std::vector<float>> state_;
  std::optional<uint64_t> round_;
  uint64_t history_ = 0;
  MaskPointer mask_;
  HeldRounds held_;

  std::optional<v1::SnapshotBegin> loading_;  // the snapshot while it comes in
  uint32_t loaded_chunks_ = 0;
  uint32_t mask_pieces_ = 0;
  std::string mask_bytes_;  // of the mask, as far as it is there
  v1::RoundSpec spec_;
  ChunkGrid grid_;
  std::vector<Bytes> aggregate_;
  std::vector<std::optional<uint64_t>> digests_;
  bool past_ = false;  // the round that has begun is a past one
  std::vector<ClosedRound> waiting_;  // closed and not applied, of one grid
  uint64_t waiting_bytes_ = 0;
};

}  // namespace tally
