// The fold's one step: parameters(r) = ApplyRound(parameters(r - 1), spec r, aggregate r). Pure, and
// the same bits on every worker and on the server.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/layout/layout.h"
#include "common/reduction/reduction.h"
#include "common/update/mask.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

// `aggregates` are the payloads by chunk index on GridForRound(layout, spec). `parameters` and each
// span of `state` have layout.size() elements, one for one: so a STATE chunk has the bounds of its
// PARAMETERS chunk. State starts as zeros and that of buffers stays so. There are at least as many
// spans as the update rule has slots; the others are left alone.
//
// `mask`, in and out, is the mask in force: a mask round sets it, a sparse round is over it. It may be
// null where there are no such rounds.
//
// Everything is checked before anything is touched: after an error parameters, state and mask are
// unchanged. INVALID_ARGUMENT names the round and the chunk, NOT_FOUND an unknown reduction or rule.
absl::Status ApplyRound(const Layout& layout, const v1::RoundSpec& spec,
                        absl::Span<const ByteSpan> aggregates, absl::Span<float> parameters,
                        absl::Span<const absl::Span<float>> state, MaskPointer* mask = nullptr);

// One round as ApplyRounds takes it.
struct LedgerStep {
  const v1::RoundSpec* spec;
  absl::Span<const ByteSpan> aggregates;
};

// Whether rounds of these specs may share a pass: the same chunks, under the same mask.
bool SameGrid(const v1::RoundSpec& a, const v1::RoundSpec& b);

// ApplyRound for one round after the other, the same bits, in one pass over the parameters: all
// rounds of a chunk before the next chunk. The rounds are consecutive and SameGrid; `state` is
// enough for each of their rules.
//
// All rounds are checked before anything is touched, as ApplyRound does.
absl::Status ApplyRounds(const Layout& layout, absl::Span<const LedgerStep> rounds,
                         absl::Span<float> parameters, absl::Span<const absl::Span<float>> state,
                         MaskPointer* mask = nullptr);

}  // namespace tally
