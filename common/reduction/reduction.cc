#include "common/reduction/reduction.h"

#include "common/base/status.h"

namespace tally {

absl::Status Reduction::ReduceInto(const ChunkContext& context,
                                   absl::Span<const Contribution> contributions,
                                   Bytes* aggregate) const {
  const std::unique_ptr<ChunkAccumulator> accumulator = NewAccumulator(context);
  TALLY_RETURN_IF_ERROR(accumulator->Add(contributions));
  TALLY_ASSIGN_OR_RETURN(*aggregate, accumulator->Finish());
  return absl::OkStatus();
}

absl::StatusOr<Bytes> Reduction::Reduce(const ChunkContext& context,
                                        absl::Span<const Contribution> contributions) const {
  Bytes aggregate;
  TALLY_RETURN_IF_ERROR(ReduceInto(context, contributions, &aggregate));
  return aggregate;
}

}  // namespace tally
