#include "server/round/snapshot_frames.h"

#include <algorithm>

#include "common/base/digest.h"
#include "common/wire/frame.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {
namespace {

constexpr size_t kMaskPieceBytes = size_t{1} << 20;

}  // namespace

grpc::ByteBuffer SnapshotFrames::Next() {
  if (!begun_) {
    begun_ = true;
    return Begin();
  }
  const auto arrays = static_cast<uint32_t>(1 + snapshot_->state().size());
  if (array_ == arrays) {
    if (index_ < mask_pieces()) return MaskPiece(index_++);
    done_ = true;
    return End();
  }
  grpc::ByteBuffer frame = Chunk(array_, index_);
  if (++index_ == grid_.size()) {
    index_ = 0;
    ++array_;
  }
  return frame;
}

grpc::ByteBuffer SnapshotFrames::Begin() const {
  v1::ServerFrame frame;
  frame.mutable_snapshot()->set_round(snapshot_->round());
  frame.mutable_snapshot()->set_state_slots(static_cast<uint32_t>(snapshot_->state().size()));
  frame.mutable_snapshot()->set_history(history_);
  frame.mutable_snapshot()->set_mask_bytes(mask_->size());
  return EncodeFrame(frame);
}

grpc::ByteBuffer SnapshotFrames::Chunk(uint32_t array, uint32_t index) const {
  const absl::Span<const float> values =
      array == 0 ? snapshot_->parameters() : snapshot_->state()[array - 1];
  const tally::Chunk& chunk = grid_[index];
  const float* first = values.data() + chunk.first;
  const size_t size = chunk.count * sizeof(float);
  v1::ServerFrame frame;
  v1::ChunkHeader* header = frame.mutable_chunk();
  header->set_kind(array == 0 ? v1::PARAMETERS : v1::STATE);
  header->set_round(snapshot_->round());
  header->set_index(index);
  header->set_slot(array == 0 ? 0 : array - 1);
  header->set_digest(Digest64(first, size));
  return EncodeFrame(frame, {SharedSlice(snapshot_, first, size)});
}

uint32_t SnapshotFrames::mask_pieces() const {
  return static_cast<uint32_t>((mask_->size() + kMaskPieceBytes - 1) / kMaskPieceBytes);
}

grpc::ByteBuffer SnapshotFrames::MaskPiece(uint32_t index) const {
  const char* first = mask_->data() + index * kMaskPieceBytes;
  const size_t size = std::min(kMaskPieceBytes, mask_->size() - index * kMaskPieceBytes);
  v1::ServerFrame frame;
  v1::ChunkHeader* header = frame.mutable_chunk();
  header->set_kind(v1::MASK);
  header->set_round(snapshot_->round());
  header->set_index(index);
  header->set_digest(Digest64(first, size));
  return EncodeFrame(frame, {SharedSlice(mask_, first, size)});
}

grpc::ByteBuffer SnapshotFrames::End() const {
  v1::ServerFrame frame;
  v1::SnapshotEnd* end = frame.mutable_snapshot_end();
  end->set_round(snapshot_->round());
  end->set_chunks(grid_.size() * static_cast<uint32_t>(1 + snapshot_->state().size()) +
                  mask_pieces());
  end->set_parameters_digest(snapshot_->parameters_digest());
  return EncodeFrame(frame);
}

}  // namespace tally
