// The mask in force: which elements sparse rounds are over. It is made by a mask round's aggregate, one
// index set a chunk, and is part of what the fold carries from round to round.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "common/reduction/index_set/index_set.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

// Immutable once made. Memory: 4 bytes an element of it.
class Mask {
 public:
  // Of an aggregate: an encoded set for each chunk of the mask round's grid. INVALID_ARGUMENT names the
  // chunk that is none, or that they have not spec.mask_size() elements together.
  static absl::StatusOr<std::shared_ptr<const Mask>> Create(const Layout& layout,
                                                            const v1::RoundSpec& spec,
                                                            absl::Span<const ByteSpan> aggregate);

  // To be kept or sent, and back. DATA_LOSS for bytes that are not of a mask of this layout.
  std::string Serialize() const;
  static absl::StatusOr<std::shared_ptr<const Mask>> Parse(const Layout& layout,
                                                           const std::string& bytes);

  // The mask round.
  const v1::RoundSpec& spec() const { return spec_; }
  uint64_t round() const { return spec_.round(); }
  uint64_t size() const { return size_; }
  const ChunkGrid& grid() const { return grid_; }
  const IndexSet& operator[](uint32_t chunk) const { return sets_[chunk]; }
  // Its part of a chunk of a grid that is its own but for frozen blocks; null for another grid's.
  const IndexSet* Find(const Chunk& chunk) const;
  // Flat indices of all its elements, ascending.
  std::vector<uint64_t> FlatIndices() const;

 private:
  Mask() = default;

  v1::RoundSpec spec_;
  uint64_t size_ = 0;
  ChunkGrid grid_;
  std::vector<IndexSet> sets_;
};

using MaskPointer = std::shared_ptr<const Mask>;  // null: there is none

// Whether the round is over a mask's elements alone.
inline bool IsSparse(const v1::RoundSpec& spec) { return spec.reduction() == "sparse_mean"; }

// The part of `mask` that the round's payloads of a chunk are over; null if it is over all.
// INVALID_ARGUMENT for a sparse round whose mask is another one, which the message names.
absl::StatusOr<const IndexSet*> MaskOfChunk(const v1::RoundSpec& spec, const Mask* mask,
                                            const Chunk& chunk);

// What a round's aggregate of a chunk must be: its reduction's, or, in a mask round, an index set.
absl::Status CheckAggregateChunk(const v1::RoundSpec& spec, const Mask* mask, const Chunk& chunk,
                                 ByteSpan payload);

}  // namespace tally
