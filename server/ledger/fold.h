// The parameters as of a round: a snapshot, then the ledger's rounds one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/layout.h"
#include "server/ledger/reader.h"
#include "server/ledger/snapshot.h"

namespace tally {

// Memory: 4 bytes * layout.size() * (1 + state slots), and one record while it is applied. Movable;
// not thread-safe.
class Fold {
 public:
  // Copies the snapshot's parameters and state.
  static Fold FromSnapshot(const Layout& layout, const Snapshot& snapshot);

  // The next round. FAILED_PRECONDITION for another one; otherwise the errors of ApplyRound. After
  // an error the fold is as it was. State that the update rule needs and no earlier round had
  // starts as zeros.
  absl::Status Apply(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregates);
  absl::Status Apply(const LedgerRound& round) { return Apply(round.spec, round.aggregates); }
  // Applies the rounds up to and with `round`. OUT_OF_RANGE if the fold is past it already.
  absl::Status AdvanceTo(const LedgerReader& reader, uint64_t round);

  uint64_t round() const { return round_; }
  // ParametersDigest of parameters(): reads them all.
  uint64_t digest() const;
  absl::Span<const float> parameters() const { return parameters_; }
  std::vector<absl::Span<const float>> state() const;
  uint64_t memory() const;

  // Takes over the config.json of the snapshot that the fold began with.
  absl::Status WriteSnapshot(const SnapshotStore& store) const;

 private:
  Fold(const Layout& layout, std::string config_json)
      : layout_(layout), config_json_(std::move(config_json)) {}
  absl::Status MakeState(const v1::RoundSpec& spec);

  Layout layout_;
  std::string config_json_;
  uint64_t round_ = 0;
  std::vector<float> parameters_;
  std::vector<std::vector<float>> state_;
};

}  // namespace tally
