#include "server/job/sqlite.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "sqlite3.h"

namespace tally {
namespace {

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CONSTRAINT:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status ErrorOf(sqlite3* database, int result) {
  const char* path = sqlite3_db_filename(database, "main");
  const int system = sqlite3_system_errno(database);
  const bool system_failed = (result & 0xff) == SQLITE_CANTOPEN || (result & 0xff) == SQLITE_IOERR;
  return absl::Status(CodeOf(result),
                      absl::StrCat(path == nullptr ? "" : path, ": ", sqlite3_errmsg(database),
                                   system_failed && system != 0
                                       ? absl::StrCat(" (", std::strerror(system), ")")
                                       : ""));
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

SqliteStatement& SqliteStatement::Bind(int position, uint64_t value) {
  const int result =
      sqlite3_bind_int64(statement_.get(), position, static_cast<sqlite3_int64>(value));
  if (bind_error_ == SQLITE_OK) bind_error_ = result;
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int position, double value) {
  const int result = sqlite3_bind_double(statement_.get(), position, value);
  if (bind_error_ == SQLITE_OK) bind_error_ = result;
  return *this;
}

SqliteStatement& SqliteStatement::BindText(int position, absl::string_view value) {
  // A null pointer would be NULL, not the empty text.
  const char* data = value.empty() ? "" : value.data();
  const int result = sqlite3_bind_text64(statement_.get(), position, data, value.size(),
                                         SQLITE_TRANSIENT, SQLITE_UTF8);
  if (bind_error_ == SQLITE_OK) bind_error_ = result;
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(int position, absl::string_view value) {
  const char* data = value.empty() ? "" : value.data();
  const int result =
      sqlite3_bind_blob64(statement_.get(), position, data, value.size(), SQLITE_TRANSIENT);
  if (bind_error_ == SQLITE_OK) bind_error_ = result;
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  sqlite3* database = sqlite3_db_handle(statement_.get());
  if (bind_error_ != SQLITE_OK) return ErrorOf(database, bind_error_);
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return ErrorOf(database, result);
}

absl::Status SqliteStatement::Run() {
  const absl::Status status = Step().status();
  Reset();
  return status;
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_.get());  // repeats the error of the last step
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

uint64_t SqliteStatement::Uint64(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_.get(), column));
}

double SqliteStatement::Double(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

absl::string_view SqliteStatement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

void Sqlite::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

absl::StatusOr<Sqlite> Sqlite::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Sqlite database;
  database.database_.reset(handle);
  if (handle == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory"));
  if (result != SQLITE_OK) return ErrorOf(handle, result);
  return database;
}

absl::Status Sqlite::Execute(const std::string& sql) {
  const int result = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : ErrorOf(database_.get(), result);
}

absl::StatusOr<SqliteStatement> Sqlite::Prepare(const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  const int result = sqlite3_prepare_v3(database_.get(), sql.c_str(), -1,
                                        SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (result != SQLITE_OK) return ErrorOf(database_.get(), result);
  SqliteStatement statement;
  statement.statement_.reset(handle);
  return statement;
}

absl::StatusOr<std::string> Sqlite::Value(const std::string& sql) {
  TALLY_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  TALLY_ASSIGN_OR_RETURN(const bool found, statement.Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no row: ", sql));
  return std::string(statement.Bytes(0));
}

uint64_t Sqlite::LastInsertId() const {
  return static_cast<uint64_t>(sqlite3_last_insert_rowid(database_.get()));
}

uint64_t Sqlite::Changes() const {
  return static_cast<uint64_t>(sqlite3_changes64(database_.get()));
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(Sqlite& database) {
  TALLY_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(&database);
}

SqliteTransaction::~SqliteTransaction() {
  // An error (a full disk, say) may have rolled back already; then this one fails, harmlessly.
  if (database_ != nullptr) database_->Execute("ROLLBACK").IgnoreError();
}

absl::Status SqliteTransaction::Commit() {
  TALLY_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace tally
