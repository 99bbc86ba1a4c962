#include "common/layout/chunk_grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"

namespace tally {
namespace {

constexpr uint32_t kLane = 64;
constexpr uint32_t kDenseChunkElements = 256 * 1024;

}  // namespace

ChunkGrid::ChunkGrid(const Layout& layout, uint32_t first_block, uint32_t end_block,
                     uint32_t chunk_elements)
    : first_block_(first_block) {
  uint64_t lane = 0;
  for (uint32_t block = first_block; block < end_block; ++block) {
    block_starts_.push_back(size());
    const LayoutBlock& range = layout.blocks()[block];
    for (uint64_t offset = 0; offset < range.count; offset += chunk_elements) {
      const auto count =
          static_cast<uint32_t>(std::min<uint64_t>(chunk_elements, range.count - offset));
      chunks_.push_back({range.first + offset, count, block, lane});
      lane += (count + kLane - 1) / kLane;
      elements_ += count;
    }
  }
  block_starts_.push_back(size());
}

std::pair<uint32_t, uint32_t> ChunkGrid::BlockRange(uint32_t block) const {
  if (block < first_block_ || block - first_block_ + 1 >= block_starts_.size()) return {0, 0};
  return {block_starts_[block - first_block_], block_starts_[block - first_block_ + 1]};
}

absl::StatusOr<ChunkGrid> GridForRound(const Layout& layout, const v1::RoundSpec& spec) {
  if (spec.chunk_elements() == 0 || spec.chunk_elements() % kLane != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", spec.round(), ": chunk_elements: expected a positive multiple of ",
                     kLane, ", found ", spec.chunk_elements()));
  }
  const auto blocks = static_cast<uint32_t>(layout.blocks().size());
  if (spec.buffers()) {
    if (!layout.has_buffers()) {
      return absl::InvalidArgumentError(
          absl::StrCat("round ", spec.round(), ": over the buffers, but the model has none"));
    }
    return ChunkGrid(layout, blocks - 1, blocks, spec.chunk_elements());
  }
  if (spec.first_active_block() >= layout.trained_blocks()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "round ", spec.round(), ": first_active_block: expected less than ",
        layout.trained_blocks(), ", found ", spec.first_active_block()));
  }
  return ChunkGrid(layout, spec.first_active_block(), layout.trained_blocks(),
                   spec.chunk_elements());
}

ChunkGrid DenseGrid(const Layout& layout) {
  return ChunkGrid(layout, 0, static_cast<uint32_t>(layout.blocks().size()), kDenseChunkElements);
}

std::vector<uint64_t> DenseChunkDigests(const Layout& layout, absl::Span<const float> parameters) {
  std::vector<uint64_t> digests;
  const ChunkGrid grid = DenseGrid(layout);
  digests.reserve(grid.size());
  for (const Chunk& chunk : grid.chunks()) {
    digests.push_back(Digest64(parameters.data() + chunk.first, chunk.count * sizeof(float)));
  }
  return digests;
}

uint64_t ParametersDigestOf(absl::Span<const uint64_t> dense_chunk_digests) {
  Digester digester;
  for (const uint64_t digest : dense_chunk_digests) digester.AddUint64(digest);
  return digester.Finish();
}

std::vector<uint64_t> BlockDigestsOf(const Layout& layout,
                                     absl::Span<const uint64_t> dense_chunk_digests) {
  const ChunkGrid grid = DenseGrid(layout);
  std::vector<uint64_t> digests;
  for (uint32_t block = 0; block < layout.blocks().size(); ++block) {
    const auto [first, end] = grid.BlockRange(block);
    digests.push_back(ParametersDigestOf(dense_chunk_digests.subspan(first, end - first)));
  }
  return digests;
}

uint64_t ParametersDigest(const Layout& layout, absl::Span<const float> parameters) {
  return ParametersDigestOf(DenseChunkDigests(layout, parameters));
}

std::vector<uint64_t> BlockDigests(const Layout& layout, absl::Span<const float> parameters) {
  return BlockDigestsOf(layout, DenseChunkDigests(layout, parameters));
}

}  // namespace tally
