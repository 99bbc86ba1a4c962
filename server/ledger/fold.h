// The parameters as of a round: a snapshot, then the ledger's rounds one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "common/update/apply_round.h"
#include "server/ledger/reader.h"
#include "server/ledger/snapshot.h"
#include "server/ledger/working_array.h"

namespace tally {

// What one pass over the parameters takes at most, and at least one round.
struct PassLimits {
  uint64_t rounds = 16;
  uint64_t record_bytes = uint64_t{64} << 20;
};

// Parameters and state are worked on in files beside the snapshots, 4 bytes * layout.size() each,
// made when the first round is applied; until then they are the snapshot's. Memory: the records of
// one pass. Movable; not thread-safe.
class Fold {
 public:
  // Keeps the snapshot open until the first round.
  static Fold FromSnapshot(const Layout& layout, const Snapshot& snapshot);

  // The next round. FAILED_PRECONDITION for another one; UNAVAILABLE if the working files cannot be
  // made now, for want of room or another reason; otherwise the errors of ApplyRounds. After an
  // error the fold is as it was. State that the update rule needs and no earlier round had starts
  // as zeros.
  absl::Status Apply(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregates);
  absl::Status Apply(const LedgerRound& round) { return Apply(round.spec, round.aggregates); }
  // Applies the rounds up to and with `round`. OUT_OF_RANGE if the fold is past it already. After
  // an error the fold has whole rounds up to some round: all before one that cannot be read, the
  // passes before the one with a round that is refused.
  absl::Status AdvanceTo(const LedgerReader& reader, uint64_t round);
  // One pass of AdvanceTo: as many of the rounds as share one. OK and nothing if there are none.
  absl::Status AdvanceOnce(const LedgerReader& reader, uint64_t round,
                           const PassLimits& limits = {});

  uint64_t round() const { return round_; }
  // ParametersDigest and BlockDigests of parameters(): both from one reading, and none if nothing
  // has changed.
  uint64_t digest() const { return ParametersDigestOf(ChunkDigests()); }
  std::vector<uint64_t> block_digests() const { return BlockDigestsOf(layout_, ChunkDigests()); }
  absl::Span<const float> parameters() const;
  std::vector<absl::Span<const float>> state() const;
  // In force; null if there is none.
  const MaskPointer& mask() const { return mask_; }

  // Takes over the config.json of the snapshot that the fold began with.
  absl::Status WriteSnapshot(const SnapshotStore& store) const;

 private:
  Fold(const Layout& layout, const Snapshot& snapshot);
  absl::Status ApplyPass(absl::Span<const LedgerStep> rounds);
  absl::Status MakeWorkingCopy();
  absl::Status MakeState(absl::Span<const LedgerStep> rounds);
  absl::StatusOr<LedgerRound> TakeRound(const LedgerReader& reader, uint64_t round);
  absl::StatusOr<std::vector<LedgerRound>> TakePass(const LedgerReader& reader, uint64_t round,
                                                    const PassLimits& limits);
  const std::vector<uint64_t>& ChunkDigests() const;

  Layout layout_;
  std::string config_json_;
  std::string folder_;  // of the working files
  uint64_t round_ = 0;
  std::optional<Snapshot> snapshot_;        // until there is a working copy
  std::optional<WorkingArray> parameters_;  // the working copy
  std::vector<WorkingArray> state_;
  MaskPointer mask_;
  std::optional<LedgerRound> ahead_;  // read, but of other chunks than the pass before it
  mutable std::optional<std::vector<uint64_t>> chunk_digests_;  // of parameters(), if known
};

}  // namespace tally
