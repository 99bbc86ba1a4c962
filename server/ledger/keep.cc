#include "server/ledger/keep.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::Status CheckPositive(absl::string_view what, uint64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected 1 or more, found 0"));
}

// The newest ones to be kept, ascending.
std::vector<uint64_t> NewestSnapshots(const LedgerKeep& keep, const KeepFacts& facts) {
  const size_t count = facts.snapshots.size();
  const size_t kept = std::min<uint64_t>(keep.keep_snapshots.value_or(count), count);
  return {facts.snapshots.end() - static_cast<ptrdiff_t>(kept), facts.snapshots.end()};
}

// Rounds from this one on must stay; 0 for all.
uint64_t FirstNeeded(const LedgerKeep& keep, const KeepFacts& facts,
                     const std::vector<uint64_t>& newest) {
  if (!keep.keep_rounds.has_value() || facts.segments.empty()) return 0;
  const auto oldest = std::lower_bound(newest.begin(), newest.end(), facts.segments.front() - 1);
  if (oldest == newest.end()) return 0;  // nothing to start a replay from
  const uint64_t last_ones = facts.last_round - std::min(*keep.keep_rounds, facts.last_round) + 1;
  return std::min(*oldest, last_ones);
}

}  // namespace

KeepDecision DecideKeep(const LedgerKeep& keep, const KeepFacts& facts) {
  KeepDecision decision;
  const std::vector<uint64_t> newest = NewestSnapshots(keep, facts);
  const uint64_t needed = FirstNeeded(keep, facts, newest);
  for (size_t i = 0; i + 1 < facts.segments.size() && facts.segments[i + 1] <= needed; ++i) {
    decision.segments.push_back(facts.segments[i]);
    decision.first_kept_round = facts.segments[i + 1];
  }
  const bool has_round_1 = facts.segments.empty() ||
                           (facts.segments.front() == 1 && decision.segments.empty());
  for (const uint64_t round : facts.snapshots) {
    if (round == 0 && has_round_1) continue;
    if (round < newest.front()) decision.snapshots.push_back(round);
  }
  return decision;
}

absl::Status CheckKeep(const LedgerKeep& keep) {
  TALLY_RETURN_IF_ERROR(CheckPositive("keep_rounds", keep.keep_rounds.value_or(1)));
  TALLY_RETURN_IF_ERROR(CheckPositive("keep_snapshots", keep.keep_snapshots.value_or(1)));
  return CheckPositive("segment_bytes", keep.segment_bytes);
}

// Rounds first: after a crash in between, what is left over is a snapshot that is not needed.
absl::Status ApplyKeep(const LedgerKeep& keep, LedgerWriter& ledger,
                       const SnapshotStore& snapshots) {
  TALLY_RETURN_IF_ERROR(CheckKeep(keep));
  KeepFacts facts;
  facts.segments = ledger.SegmentStarts();
  facts.last_round = ledger.last_round();
  TALLY_ASSIGN_OR_RETURN(facts.snapshots, snapshots.List());
  const KeepDecision decision = DecideKeep(keep, facts);
  TALLY_RETURN_IF_ERROR(ledger.DropBefore(decision.first_kept_round));
  for (const uint64_t round : decision.snapshots) {
    TALLY_RETURN_IF_ERROR(snapshots.Remove(round));
  }
  return absl::OkStatus();
}

}  // namespace tally
