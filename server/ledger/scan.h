// Reading a ledger's folder at start: which rounds are whole, and where the last segment's good
// part ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/ledger/index.h"

namespace tally {

struct LedgerScan {
  std::shared_ptr<LedgerIndex> index;
  std::string last_segment;  // path; empty if the folder has none
  uint64_t good_bytes = 0;   // of the last segment; what follows is a torn tail
  uint64_t file_bytes = 0;   // of the last segment
  std::string torn_reason;   // why the tail does not count; empty if there is none
};

// Heads of all records are checked, and all bytes of the last segment. A bad record there is a torn
// tail (a crash while writing), unless a later record says that it had been synced.
//
// `first_round` is for an empty folder. FAILED_PRECONDITION for another layout's ledger; DATA_LOSS
// naming segment and offset for a damaged header or head, a gap between segments, and a record
// that was synced and is bad now.
absl::StatusOr<LedgerScan> ScanLedger(const std::string& folder, uint64_t layout_digest,
                                      uint64_t first_round);

}  // namespace tally
