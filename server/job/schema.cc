#include "server/job/schema.h"

#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr int kApplicationId = 0x54616c79;  // "Taly", in the file's header

// What makes a file of version N of one of version N - 1, from the empty file on; never changed
// once released.
constexpr const char* kUpgrades[] = {
    // 1
    R"sql(
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  token TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL,       -- v1.JobSpec as submitted
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  submitted REAL NOT NULL,  -- seconds since the epoch; 0: not yet
  started REAL NOT NULL,
  finished REAL NOT NULL,
  summary BLOB NOT NULL     -- v1.JobStatus without its spec
) STRICT;
CREATE TABLE workers (
  job INTEGER NOT NULL REFERENCES jobs (number),
  position INTEGER NOT NULL,  -- the worker's index in the job
  name TEXT NOT NULL,
  PRIMARY KEY (job, position),
  UNIQUE (job, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  job INTEGER NOT NULL REFERENCES jobs (number),
  sequence INTEGER NOT NULL,
  time REAL NOT NULL,
  level TEXT NOT NULL,
  worker TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (job, sequence)
) STRICT, WITHOUT ROWID;
)sql",
    // 2: jobs that a person holds, places that are vacant (name ''), workers that are drained
    R"sql(
ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN held_reason TEXT NOT NULL DEFAULT '';
CREATE TABLE places (
  job INTEGER NOT NULL REFERENCES jobs (number),
  position INTEGER NOT NULL,  -- the place's index in the job
  name TEXT NOT NULL,         -- of its worker; empty: vacant
  PRIMARY KEY (job, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_place_each ON places (job, name) WHERE name <> '';
INSERT INTO places (job, position, name) SELECT job, position, name FROM workers;
DROP TABLE workers;
CREATE TABLE drained (
  name TEXT PRIMARY KEY,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql",
};
static_assert(std::size(kUpgrades) == kSchemaVersion);

absl::Status CheckWhole(Sqlite& database, const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(const std::string found, database.Value("PRAGMA quick_check(1)"));
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": the database is damaged: ", found));
}

// All the versions in one transaction: a file is never between two of them.
absl::Status Upgrade(Sqlite& database, int from) {
  TALLY_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(database));
  for (int version = from; version < kSchemaVersion; ++version) {
    TALLY_RETURN_IF_ERROR(database.Execute(kUpgrades[version]));
  }
  TALLY_RETURN_IF_ERROR(database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                                      "; PRAGMA user_version = ", kSchemaVersion)));
  return transaction.Commit();
}

absl::Status SwitchToWal(Sqlite& database, const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(const std::string mode, database.Value("PRAGMA journal_mode = WAL"));
  if (mode == "wal") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected a file system that can hold a write-ahead log (a local one), ",
                   "found journal mode ", mode));
}

}  // namespace

absl::Status PrepareSchema(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(Sqlite database, Sqlite::Open(path));
  TALLY_ASSIGN_OR_RETURN(const std::string application, database.Value("PRAGMA application_id"));
  TALLY_ASSIGN_OR_RETURN(const std::string found, database.Value("PRAGMA user_version"));
  TALLY_ASSIGN_OR_RETURN(const std::string tables,
                         database.Value("SELECT count(*) FROM sqlite_master"));
  const bool empty = application == "0" && found == "0" && tables == "0";
  if (!empty && application != absl::StrCat(kApplicationId)) {
    return absl::DataLossError(absl::StrCat(path, ": expected Tally's job database, found the "
                                                  "database of another program"));
  }
  int version = 0;
  if (!absl::SimpleAtoi(found, &version) || version > kSchemaVersion || (!empty && version < 1)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected schema version ", kSchemaVersion, " or older, found ", found,
                     "; a newer Tally wrote it, which must also be the one to use it"));
  }
  TALLY_RETURN_IF_ERROR(CheckWhole(database, path));
  TALLY_RETURN_IF_ERROR(SwitchToWal(database, path));
  return version == kSchemaVersion ? absl::OkStatus() : Upgrade(database, version);
}

absl::StatusOr<Sqlite> Connect(const std::string& path, SqliteSync sync) {
  TALLY_ASSIGN_OR_RETURN(Sqlite database, Sqlite::Open(path));
  TALLY_RETURN_IF_ERROR(database.Execute(
      absl::StrCat("PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000; PRAGMA synchronous = ",
                   sync == SqliteSync::kFull ? "FULL" : "NORMAL")));
  return database;
}

}  // namespace tally
