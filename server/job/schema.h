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

// Of the tables in the file.
inline constexpr int kSchemaVersion = 2;

// Checks the file, and makes its tables if it has none or older ones. FAILED_PRECONDITION for a
// version above kSchemaVersion, DATA_LOSS for a damaged file and for a database of another program.
absl::Status PrepareSchema(const std::string& path);
// For a file that PrepareSchema has seen.
absl::StatusOr<Sqlite> Connect(const std::string& path, SqliteSync sync);

}  // namespace tally
