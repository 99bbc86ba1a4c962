#include "server/ledger/fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/paths.h"
#include "common/update/update_rule.h"

namespace tally {
namespace {

// Whatever is wrong with the disk, it may be put right.
absl::Status NoWorkingFiles(const absl::Status& why) {
  return absl::UnavailableError(absl::StrCat("no working files: ", why.message()));
}

}  // namespace

Fold::Fold(const Layout& layout, const Snapshot& snapshot)
    : layout_(layout),
      config_json_(snapshot.config_json()),
      folder_(FolderOf(snapshot.path())),
      round_(snapshot.round()),
      snapshot_(snapshot),
      mask_(snapshot.mask()),
      chunk_digests_(snapshot.chunk_digests()) {}

Fold Fold::FromSnapshot(const Layout& layout, const Snapshot& snapshot) {
  return Fold(layout, snapshot);
}

absl::Span<const float> Fold::parameters() const {
  return parameters_.has_value() ? parameters_->values() : snapshot_->parameters();
}

std::vector<absl::Span<const float>> Fold::state() const {
  if (snapshot_.has_value()) return snapshot_->state();
  std::vector<absl::Span<const float>> spans;
  for (const WorkingArray& slot : state_) spans.push_back(slot.values());
  return spans;
}

absl::Status Fold::MakeWorkingCopy() {
  if (!snapshot_.has_value()) return absl::OkStatus();
  auto parameters = WorkingArray::CopyOf(folder_, snapshot_->parameters());
  if (!parameters.ok()) return NoWorkingFiles(parameters.status());
  std::vector<WorkingArray> state;
  for (const absl::Span<const float> slot : snapshot_->state()) {
    auto copy = WorkingArray::CopyOf(folder_, slot);
    if (!copy.ok()) return NoWorkingFiles(copy.status());
    state.push_back(*std::move(copy));
  }
  parameters_ = *std::move(parameters);
  state_ = std::move(state);
  snapshot_.reset();
  return absl::OkStatus();
}

absl::Status Fold::MakeState(absl::Span<const LedgerStep> rounds) {
  size_t slots = 0;
  for (const LedgerStep& round : rounds) {
    TALLY_ASSIGN_OR_RETURN(const UpdateRule* rule, FindUpdateRule(round.spec->update_rule()));
    slots = std::max(slots, static_cast<size_t>(rule->state_slots()));
  }
  while (state_.size() < slots) {
    auto zeros = WorkingArray::Zeros(folder_, layout_.size());
    if (!zeros.ok()) return NoWorkingFiles(zeros.status());
    state_.push_back(*std::move(zeros));
  }
  return absl::OkStatus();
}

absl::Status Fold::ApplyPass(absl::Span<const LedgerStep> rounds) {
  TALLY_RETURN_IF_ERROR(MakeWorkingCopy());
  const size_t slots_before = state_.size();
  absl::Status status = MakeState(rounds);
  if (status.ok()) {
    std::vector<absl::Span<float>> state;
    for (WorkingArray& slot : state_) state.push_back(slot.values());
    status = ApplyRounds(layout_, rounds, parameters_->values(), state, &mask_);
  }
  if (!status.ok()) {
    state_.erase(state_.begin() + static_cast<ptrdiff_t>(slots_before), state_.end());
    return status;
  }
  chunk_digests_.reset();
  round_ = rounds.back().spec->round();
  return absl::OkStatus();
}

absl::Status Fold::Apply(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregates) {
  if (spec.round() != round_ + 1) {
    return absl::FailedPreconditionError(absl::StrCat("fold: expected round ", round_ + 1,
                                                      " to come next, found ", spec.round()));
  }
  return WithContext(ApplyPass({LedgerStep{&spec, aggregates}}), "fold");
}

absl::StatusOr<LedgerRound> Fold::TakeRound(const LedgerReader& reader, uint64_t round) {
  std::optional<LedgerRound> ahead = std::exchange(ahead_, std::nullopt);
  if (ahead.has_value() && ahead->spec.round() == round) return *std::move(ahead);
  return reader.Read(round);
}

// The rounds up to `round` that share the next pass. A later one that cannot be read ends it, and is
// told by the pass after it.
absl::StatusOr<std::vector<LedgerRound>> Fold::TakePass(const LedgerReader& reader, uint64_t round,
                                                        const PassLimits& limits) {
  std::vector<LedgerRound> pass;
  for (uint64_t next = round_ + 1; next <= round; ++next) {
    if (!pass.empty() && (pass.size() >= limits.rounds ||
                          reader.BytesOf(round_ + 1, next) > limits.record_bytes)) {
      break;
    }
    absl::StatusOr<LedgerRound> read = TakeRound(reader, next);
    if (!read.ok() && !pass.empty()) break;
    TALLY_RETURN_IF_ERROR(read.status());
    if (!pass.empty() && !SameGrid(pass.back().spec, read->spec)) {
      ahead_ = *std::move(read);
      break;
    }
    pass.push_back(*std::move(read));
  }
  return pass;
}

absl::Status Fold::AdvanceOnce(const LedgerReader& reader, uint64_t round,
                               const PassLimits& limits) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<LedgerRound> pass, TakePass(reader, round, limits));
  if (pass.empty()) return absl::OkStatus();
  std::vector<LedgerStep> steps;
  for (const LedgerRound& next : pass) steps.push_back({&next.spec, next.aggregates});
  return WithContext(ApplyPass(steps), "fold");
}

absl::Status Fold::AdvanceTo(const LedgerReader& reader, uint64_t round) {
  if (round < round_) {
    return absl::OutOfRangeError(
        absl::StrCat("fold: at round ", round_, ", cannot go back to ", round));
  }
  while (round_ < round) TALLY_RETURN_IF_ERROR(AdvanceOnce(reader, round));
  return absl::OkStatus();
}

const std::vector<uint64_t>& Fold::ChunkDigests() const {
  if (!chunk_digests_.has_value()) chunk_digests_ = DenseChunkDigests(layout_, parameters());
  return *chunk_digests_;
}

absl::Status Fold::WriteSnapshot(const SnapshotStore& store) const {
  return store.Write(round_, parameters(), state(), config_json_, digest(), mask_.get());
}

}  // namespace tally
