#include "common/update/round_context.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {

absl::StatusOr<ChunkContext> ContributionContext(const v1::RoundSpec& spec, const Chunk& chunk,
                                                 const IndexSet* mask) {
  const auto dtype = FindValueDtype(spec.dtype());
  if (!dtype.ok()) return WithContext(dtype.status(), absl::StrCat("round ", spec.round()));
  return ChunkContext{chunk.first_lane, chunk.count,    spec.tie_key(),
                      spec.zero_ties(), *dtype, mask};
}

absl::StatusOr<ChunkContext> AggregateContext(const v1::RoundSpec& spec, const Chunk& chunk,
                                              const IndexSet* mask) {
  TALLY_ASSIGN_OR_RETURN(ChunkContext context, ContributionContext(spec, chunk, mask));
  if (context.dtype == ValueDtype::kSign) context.dtype = ValueDtype::kBfloat16;
  return context;
}

}  // namespace tally
