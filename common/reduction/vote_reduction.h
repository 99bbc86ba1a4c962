// What the reductions of signs share: the contribution, its checks and the counting. Each adds
// only how it writes an aggregate from the counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/reduction/reduction.h"
#include "common/reduction/vote_count.h"

namespace tally {

// Writes one chunk's aggregate from its counts, lane after lane.
class VoteWriter {
 public:
  virtual ~VoteWriter() = default;
  // The next lanes. All but the last call have a multiple of 64 of them.
  virtual void Append(const VoteCount& count) = 0;
  // The same for lanes whose votes are not counted yet.
  virtual void AppendVotes(absl::Span<const SignView> views);
  // The aggregate is whole after it.
  virtual void Finish() = 0;

 private:
  VoteCount count_;  // of AppendVotes
};

class VoteReduction : public Reduction {
 public:
  bool counts_whole() const override { return false; }
  uint32_t max_chunk_elements() const override { return kMaxSignElements; }
  size_t MaxContributionBytes(uint32_t count) const override {
    return SignPayloadBytes(count, true);
  }
  absl::Status CheckContribution(const ChunkContext& context, ByteSpan payload) const override {
    return CheckSignPayload(context.count, payload);
  }
  Bytes Pack(const ChunkContext& context, absl::Span<const float> values,
             uint64_t zero_key) const override {
    return PackSigns(values, context.first_lane, zero_key);
  }
  std::unique_ptr<ChunkAccumulator> NewAccumulator(const ChunkContext& context) const override;
  absl::Status ReduceInto(const ChunkContext& context,
                          absl::Span<const Contribution> contributions,
                          Bytes* aggregate) const override;

  // Writes over `aggregate`, which outlives the writer. `voters` is at least 1.
  virtual std::unique_ptr<VoteWriter> NewWriter(const ChunkContext& context, size_t voters,
                                                Bytes* aggregate) const = 0;
};

}  // namespace tally
