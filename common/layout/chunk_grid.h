// The chunks of a round: fixed ranges of the index space, numbered from 0. The grid starts anew at
// each block, so that freezing a block removes whole chunks and moves no other's bounds, and a
// block's chunks can leave before its neighbour's gradient is known.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/layout.h"

namespace tally {

struct Chunk {
  uint64_t first = 0;       // flat index of its first element
  uint32_t count = 0;       // elements, never 0
  uint32_t block = 0;
  uint64_t first_lane = 0;  // lanes before it; a lane never spans blocks. Unique within a grid.
};

class ChunkGrid {
 public:
  ChunkGrid() = default;
  // Blocks [first_block, end_block). chunk_elements is a positive multiple of 64.
  ChunkGrid(const Layout& layout, uint32_t first_block, uint32_t end_block,
            uint32_t chunk_elements);

  const std::vector<Chunk>& chunks() const { return chunks_; }
  uint32_t size() const { return static_cast<uint32_t>(chunks_.size()); }
  const Chunk& operator[](uint32_t index) const { return chunks_[index]; }
  // Chunk indices [first, second) of a block on the grid; empty for a block off it.
  std::pair<uint32_t, uint32_t> BlockRange(uint32_t block) const;
  // Elements that the grid covers.
  uint64_t elements() const { return elements_; }

 private:
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> block_starts_;  // of block first_block_ + i; one more than blocks
  uint32_t first_block_ = 0;
  uint64_t elements_ = 0;
};

// The grid of a round over `layout`: its active blocks, or the buffers block alone.
// INVALID_ARGUMENT for a spec that does not fit the layout.
absl::StatusOr<ChunkGrid> GridForRound(const Layout& layout, const v1::RoundSpec& spec);

// The grid of PARAMETERS and STATE chunks: all blocks, 256 Ki float32 elements (1 MiB) a chunk.
ChunkGrid DenseGrid(const Layout& layout);

// Digest of all parameters (buffers included): Digest64 over the Digest64s, little-endian, of the
// chunks of DenseGrid. `parameters` has layout.size() elements.
uint64_t ParametersDigest(const Layout& layout, absl::Span<const float> parameters);
// By block: Digest64 over the Digest64s, little-endian, of its chunks of DenseGrid. They tell which
// blocks differ where ParametersDigest does.
std::vector<uint64_t> BlockDigests(const Layout& layout, absl::Span<const float> parameters);

// Both from one reading: the digests of DenseGrid's chunks, and what becomes of them.
std::vector<uint64_t> DenseChunkDigests(const Layout& layout, absl::Span<const float> parameters);
uint64_t ParametersDigestOf(absl::Span<const uint64_t> dense_chunk_digests);
std::vector<uint64_t> BlockDigestsOf(const Layout& layout,
                                     absl::Span<const uint64_t> dense_chunk_digests);

}  // namespace tally
