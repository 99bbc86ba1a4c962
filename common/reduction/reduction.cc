#include "common/reduction/reduction.h"

#include "common/base/status.h"

namespace tally {

absl::StatusOr<Bytes> Reduction::Reduce(const ChunkContext& context,
                                        absl::Span<const Contribution> contributions) const {
  std::unique_ptr<ChunkAccumulator> accumulator = NewAccumulator(context);
  TALLY_RETURN_IF_ERROR(accumulator->Add(contributions));
  return accumulator->Finish();
}

}  // namespace tally
