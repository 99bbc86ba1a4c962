// What a ledger and its snapshots may forget. docs/ledger-format.md, "What is kept".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "server/ledger/snapshot.h"
#include "server/ledger/writer.h"

namespace tally {

struct LedgerKeep {
  std::optional<uint64_t> keep_rounds = {};  // the last ones; nothing: all
  uint64_t segment_bytes = LedgerOptions().segment_bytes;
  std::optional<uint64_t> keep_snapshots = 3;  // the newest ones; nothing: all
};

struct KeepFacts {
  std::vector<uint64_t> segments;   // their first rounds, ascending
  uint64_t last_round = 0;          // of the ledger
  std::vector<uint64_t> snapshots;  // their rounds, ascending
};

struct KeepDecision {
  std::vector<uint64_t> segments;   // that go, by first round: the oldest ones
  std::vector<uint64_t> snapshots;  // that go
  uint64_t first_kept_round = 0;    // LedgerWriter::DropBefore this; 0 if no segment goes
};

// Pure; `keep` has passed CheckKeep. A segment goes when each of its rounds is both older than the
// last keep_rounds and older than the oldest kept snapshot that the ledger continues; that
// snapshot's own round stays, because its history is in its record. Whole segments go, never the
// last. A snapshot goes when it is none of the newest keep_snapshots; the base stays while round 1
// does.
KeepDecision DecideKeep(const LedgerKeep& keep, const KeepFacts& facts);

// INVALID_ARGUMENT for keeping no round, no snapshot or segments of no bytes.
absl::Status CheckKeep(const LedgerKeep& keep);

// To be called when a snapshot has been written, by the thread that writes them. After an error
// less was removed than could have been; the next call removes it.
absl::Status ApplyKeep(const LedgerKeep& keep, LedgerWriter& ledger,
                       const SnapshotStore& snapshots);

}  // namespace tally
