#include "server/round/mask_selection.h"

#include <numeric>

#include "common/base/random.h"
#include "common/reduction/index_set/index_set.h"
#include "common/reduction/top_k/top_k.h"

namespace tally {

std::vector<Bytes> SelectMask(const ChunkGrid& grid, absl::Span<const float> scores,
                              uint64_t size) {
  const uint32_t head = grid.chunks().back().block;
  uint64_t head_elements = 0;
  for (const Chunk& chunk : grid.chunks()) {
    if (chunk.block == head) head_elements += chunk.count;
  }
  TopKCut cut = TopKCut::Find(scores.first(scores.size() - head_elements), size - head_elements);
  std::vector<Bytes> sets;
  size_t first = 0;
  for (const Chunk& chunk : grid.chunks()) {
    IndexSet set{chunk.count, {}};
    if (chunk.block == head) {
      set.indices.resize(chunk.count);
      std::iota(set.indices.begin(), set.indices.end(), 0u);
    } else {
      cut.Select(scores.subspan(first, chunk.count), &set.indices);
    }
    sets.push_back(EncodeIndexSet(set));
    first += chunk.count;
  }
  return sets;
}

std::vector<float> RandomScores(uint64_t count, uint64_t key) {
  std::vector<float> scores(count);
  for (uint64_t i = 0; i < count; ++i) {
    scores[i] = static_cast<float>(RandomWord(key, i) >> 40);  // 24 bits are exact
  }
  return scores;
}

}  // namespace tally
