// A snapshot as frames: SnapshotBegin, its PARAMETERS, STATE and MASK chunks, SnapshotEnd. Payloads are
// the mapped file itself, so that sending one costs the server no memory of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/layout/chunk_grid.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/ledger/snapshot.h"

namespace tally {

class SnapshotFrames {
 public:
  // `history`: RoundClosed.history of the snapshot's round, 0 for the base.
  SnapshotFrames(const Layout& layout, std::unique_ptr<Snapshot> snapshot, uint64_t history)
      : grid_(DenseGrid(layout)),
        snapshot_(std::move(snapshot)),
        mask_(std::make_shared<const std::string>(
            snapshot_->mask() == nullptr ? "" : snapshot_->mask()->Serialize())),
        history_(history) {}

  uint64_t round() const { return snapshot_->round(); }
  bool done() const { return done_; }
  // Not after done().
  grpc::ByteBuffer Next();

 private:
  grpc::ByteBuffer Begin() const;
  grpc::ByteBuffer Chunk(uint32_t array, uint32_t index) const;
  grpc::ByteBuffer MaskPiece(uint32_t index) const;
  uint32_t mask_pieces() const;
  grpc::ByteBuffer End() const;

  ChunkGrid grid_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::shared_ptr<const std::string> mask_;  // a MaskProto's bytes; empty without one
  uint64_t history_;
  bool begun_ = false;
  bool done_ = false;
  uint32_t array_ = 0;  // 0: the parameters; 1 + s: state slot s; then the mask
  uint32_t index_ = 0;
};

}  // namespace tally
