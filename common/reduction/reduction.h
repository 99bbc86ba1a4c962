// How contributions combine. A reduction knows its payload formats and nothing of rounds, workers
// or the network: it sees spans of bytes, one chunk at a time.
//
// A new reduction is one folder here and one line in registry.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/reduction/value_dtype.h"

namespace tally {

using Bytes = std::vector<unsigned char>;
using ByteSpan = absl::Span<const unsigned char>;
struct IndexSet;  // index_set/index_set.h

// What fixes the outcome of one chunk beside the contributions themselves.
struct ChunkContext {
  uint64_t first_lane = 0;  // the chunk's first element / 64 on the lane grid of its round
  uint32_t count = 0;       // elements
  uint64_t tie_key = 0;     // StreamKey(job seed, 0, round, kTie)
  bool zero_ties = false;   // a tie gives 0 instead of a random sign
  ValueDtype dtype = ValueDtype::kFloat32;  // of the payloads' values; means alone
  // The elements that contributions are over; not owned. None: each says its own. sparse_mean alone.
  const IndexSet* mask = nullptr;
};

// Above it a number of samples is not exact in a double, and a sum of products could overflow.
inline constexpr double kMaxWeight = 9007199254740992.0;  // 2^53

// One worker's payload for the chunk.
struct Contribution {
  ByteSpan payload;
  double weight = 1;  // samples behind it; a vote counts one whatever its weight
};

// Sums one chunk's contributions. Not thread-safe.
class ChunkAccumulator {
 public:
  virtual ~ChunkAccumulator() = default;
  // Payloads must have passed CheckContribution. They are not needed after the call. Several at
  // once are faster than one by one; the result does not depend on the grouping nor, for votes,
  // on the order. Means add in the order given: callers fix it (by worker index).
  // INVALID_ARGUMENT for a payload of the wrong form or a weight that is negative, not finite or
  // above kMaxWeight, RESOURCE_EXHAUSTED beyond 255 voters; nothing of the call is then counted.
  virtual absl::Status Add(absl::Span<const Contribution> contributions) = 0;
  // The aggregate's payload. FAILED_PRECONDITION if nothing was added or all weights are zero.
  virtual absl::StatusOr<Bytes> Finish() = 0;
  // Bytes held until Finish.
  virtual size_t memory() const = 0;
};

class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual absl::string_view name() const = 0;
  // True: a contribution counts whole or not at all, so the caller stages all of its chunks and
  // adds them after its end is checked. False: it counts chunk by chunk.
  virtual bool counts_whole() const = 0;
  // Elements a chunk may have so that a contribution stays at about 1 MiB; a multiple of 64.
  virtual uint32_t max_chunk_elements() const = 0;
  // Upper bounds, for buffers and limits.
  virtual size_t MaxContributionBytes(uint32_t count) const = 0;
  virtual size_t MaxAggregateBytes(uint32_t count, uint32_t voters) const = 0;
  // INVALID_ARGUMENT that names what is wrong: length, flags, padding bits, NaN or Inf in a mean.
  // Also another dtype than the context's.
  virtual absl::Status CheckContribution(const ChunkContext& context, ByteSpan payload) const = 0;
  virtual absl::Status CheckAggregate(const ChunkContext& context, ByteSpan payload) const = 0;
  virtual std::unique_ptr<ChunkAccumulator> NewAccumulator(const ChunkContext& context) const = 0;
  // NewAccumulator, one Add of everything and Finish: the same bytes, written over `aggregate`,
  // whose memory is used again (new memory costs as much as the vote itself). Votes override it
  // with one pass over the payloads, block by block, so that the counts never leave the cache.
  virtual absl::Status ReduceInto(const ChunkContext& context,
                                  absl::Span<const Contribution> contributions,
                                  Bytes* aggregate) const;
  absl::StatusOr<Bytes> Reduce(const ChunkContext& context,
                               absl::Span<const Contribution> contributions) const;

  // The contribution that stands for `values` (finite, at least one). A vote sends their signs; a
  // zero in a lane that votes takes its bit of RandomWord(zero_key, first_lane + lane). A sparse mean
  // sends those in the mask, or, without one, those that are not zero. As many values as elements.
  virtual Bytes Pack(const ChunkContext& context, absl::Span<const float> values,
                     uint64_t zero_key) const = 0;
  // The aggregate as one number an element: a vote's D in [-1, 1], a mean's mean, 0 where a sparse
  // mean has none.
  virtual absl::StatusOr<std::vector<float>> Unpack(const ChunkContext& context,
                                                    ByteSpan aggregate) const = 0;
};

// The reduction of that name (majority, sign_mean, dense_mean, sparse_mean), never destroyed.
// NOT_FOUND lists the names there are.
absl::StatusOr<const Reduction*> FindReduction(absl::string_view name);
std::vector<absl::string_view> ReductionNames();

}  // namespace tally
