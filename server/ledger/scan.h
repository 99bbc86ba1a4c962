// Reading a ledger's folder at start: which rounds are whole, and where the last segment's good
// part ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/ledger/index.h"

namespace tally {

struct LedgerScan {
  std::shared_ptr<LedgerIndex> index;
  std::string last_segment;  // path; empty if the folder has none
  uint64_t good_bytes = 0;   // of the last segment; what follows is a torn tail
  uint64_t file_bytes = 0;   // of the last segment
  std::string torn_reason;   // why the tail does not count; empty if there is none
};

// First rounds of the segments in the folder, ascending.
absl::StatusOr<std::vector<uint64_t>> ListSegments(const std::string& folder);

// The header at the start of `bytes` is of that layout (else FAILED_PRECONDITION) and of the segment
// named `first_round` (else DATA_LOSS).
absl::Status CheckSegmentHeader(absl::string_view bytes, uint64_t layout_digest,
                                uint64_t first_round);

// Heads of all records are checked, and all bytes of the last segment. A bad record there is a torn
// tail (a crash while writing), unless a later record says that it had been synced.
//
// `first_round` is for an empty folder. FAILED_PRECONDITION for another layout's ledger; DATA_LOSS
// naming segment and offset for a damaged header or head, a gap between segments, and a record
// that was synced and is bad now.
absl::StatusOr<LedgerScan> ScanLedger(const std::string& folder, uint64_t layout_digest,
                                      uint64_t first_round);

}  // namespace tally
