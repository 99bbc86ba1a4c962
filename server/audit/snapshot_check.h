// A snapshot's files against what the ledger gives.
#pragma once

#include <vector>

#include "common/layout/layout.h"
#include "proto/tally/v1/control.pb.h"
#include "server/ledger/fold.h"
#include "server/ledger/snapshot.h"

namespace tally {

// Where the snapshot of fold.round() is not the fold: its parameters and state by block, and what it
// says of itself. Empty: the same, bit for bit. Reads the snapshot once.
std::vector<v1::Difference> CompareSnapshot(const SnapshotStore& store, const Fold& fold);

// Digests of a replay against others, by block; as a whole if no block differs. `found_blocks` may be
// empty.
std::vector<v1::Difference> CompareDigests(const Layout& layout, const Fold& fold,
                                           const std::string& source, uint64_t found,
                                           absl::Span<const uint64_t> found_blocks);

}  // namespace tally
