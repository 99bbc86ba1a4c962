#include "server/ledger/fold.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "common/update/apply_round.h"
#include "common/update/update_rule.h"

namespace tally {

Fold Fold::FromSnapshot(const Layout& layout, const Snapshot& snapshot) {
  Fold fold(layout, snapshot.config_json());
  fold.round_ = snapshot.round();
  fold.parameters_.assign(snapshot.parameters().begin(), snapshot.parameters().end());
  for (const absl::Span<const float> slot : snapshot.state()) {
    fold.state_.emplace_back(slot.begin(), slot.end());
  }
  return fold;
}

absl::Status Fold::MakeState(const v1::RoundSpec& spec) {
  TALLY_ASSIGN_OR_RETURN(const UpdateRule* rule, FindUpdateRule(spec.update_rule()));
  while (state_.size() < static_cast<size_t>(rule->state_slots())) {
    state_.emplace_back(layout_.size());
  }
  return absl::OkStatus();
}

absl::Status Fold::Apply(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregates) {
  if (spec.round() != round_ + 1) {
    return absl::FailedPreconditionError(absl::StrCat("fold: expected round ", round_ + 1,
                                                      " to come next, found ", spec.round()));
  }
  const size_t slots_before = state_.size();
  TALLY_RETURN_IF_ERROR(WithContext(MakeState(spec), "fold"));
  std::vector<absl::Span<float>> state(state_.begin(), state_.end());
  const absl::Status status =
      ApplyRound(layout_, spec, aggregates, absl::MakeSpan(parameters_), state);
  if (!status.ok()) {
    state_.resize(slots_before);
    return WithContext(status, "fold");
  }
  round_ = spec.round();
  return absl::OkStatus();
}

absl::Status Fold::AdvanceTo(const LedgerReader& reader, uint64_t round) {
  if (round < round_) {
    return absl::OutOfRangeError(
        absl::StrCat("fold: at round ", round_, ", cannot go back to ", round));
  }
  while (round_ < round) {
    TALLY_ASSIGN_OR_RETURN(const LedgerRound next, reader.Read(round_ + 1));
    TALLY_RETURN_IF_ERROR(Apply(next));
  }
  return absl::OkStatus();
}

uint64_t Fold::digest() const { return ParametersDigest(layout_, parameters_); }

std::vector<absl::Span<const float>> Fold::state() const { return {state_.begin(), state_.end()}; }

uint64_t Fold::memory() const {
  return layout_.size() * sizeof(float) * (1 + static_cast<uint64_t>(state_.size()));
}

absl::Status Fold::WriteSnapshot(const SnapshotStore& store) const {
  return store.Write(round_, parameters_, state(), config_json_);
}

}  // namespace tally
