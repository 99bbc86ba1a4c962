// What a job has left in its folder, opened to be read beside its run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "server/audit/ledger_view.h"
#include "server/ledger/snapshot.h"

namespace tally {

struct JobFiles {
  std::string folder;
  Layout layout;
  SnapshotStore snapshots;
  std::vector<uint64_t> snapshot_rounds;  // ascending; listed before the ledger was looked at
  LedgerView ledger;
};

// NOT_FOUND if the folder is gone, FAILED_PRECONDITION if there is no model in it yet, in words for
// people: no server's paths. Other errors may tell paths.
absl::StatusOr<JobFiles> OpenJobFiles(const std::string& job_id, const std::string& folder);

// The message of a status about files below `folder`, with their paths as seen from there; and the
// status with that message.
std::string WithoutFolder(const absl::Status& status, const std::string& folder);
absl::Status StatusWithoutFolder(const absl::Status& status, const std::string& folder);

}  // namespace tally
