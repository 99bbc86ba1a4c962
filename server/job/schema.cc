#include "server/job/schema.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr int kApplicationId = 0x54616c79;  // "Taly", in the file's header

constexpr char kTables[] = R"sql(
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
)sql";

absl::Status CheckWhole(Sqlite& database, const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(const std::string found, database.Value("PRAGMA quick_check(1)"));
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": the database is damaged: ", found));
}

absl::Status CreateTables(Sqlite& database, int version) {
  TALLY_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(database));
  TALLY_RETURN_IF_ERROR(database.Execute(kTables));
  TALLY_RETURN_IF_ERROR(database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                                      "; PRAGMA user_version = ", version)));
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

absl::Status PrepareSchema(const std::string& path, int version) {
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
  if (!empty && found != absl::StrCat(version)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected schema version ", version, ", found ", found,
                     "; a newer Tally wrote it, which must also be the one to use it"));
  }
  TALLY_RETURN_IF_ERROR(CheckWhole(database, path));
  TALLY_RETURN_IF_ERROR(SwitchToWal(database, path));
  return empty ? CreateTables(database, version) : absl::OkStatus();
}

absl::StatusOr<Sqlite> Connect(const std::string& path, SqliteSync sync) {
  TALLY_ASSIGN_OR_RETURN(Sqlite database, Sqlite::Open(path));
  TALLY_RETURN_IF_ERROR(database.Execute(
      absl::StrCat("PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000; PRAGMA synchronous = ",
                   sync == SqliteSync::kFull ? "FULL" : "NORMAL")));
  return database;
}

}  // namespace tally
