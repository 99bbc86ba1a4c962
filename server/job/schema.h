// The tables of tally.db, and opening a file that may be new, ours, newer, foreign or damaged.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/job/sqlite.h"

namespace tally {

enum class SqliteSync {
  kFull,    // a committed transaction outlives a power cut
  kNormal,  // the last ones may not, but the file stays whole
};

// Checks the file and makes its tables if it has none. FAILED_PRECONDITION for a version above
// `version`, DATA_LOSS for a damaged file and for a database of another program.
absl::Status PrepareSchema(const std::string& path, int version);
// For a file that PrepareSchema has seen.
absl::StatusOr<Sqlite> Connect(const std::string& path, SqliteSync sync);

}  // namespace tally
