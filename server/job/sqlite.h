// SQLite with absl::Status and owned handles; no more of it than the store needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tally {

// A prepared statement. Bind by position from 1, then Step for each row or Run for none; both start
// anew after Reset, which Run does itself.
class SqliteStatement {
 public:
  SqliteStatement() = default;

  SqliteStatement& Bind(int position, uint64_t value);  // at most 2^63 - 1
  SqliteStatement& Bind(int position, double value);
  SqliteStatement& BindText(int position, absl::string_view value);
  SqliteStatement& BindBlob(int position, absl::string_view value);

  // True: a row is there to read. False: no more of them.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();
  void Reset();

  // Columns of the row, from 0. Views hold until the next Step or Reset.
  uint64_t Uint64(int column) const;
  double Double(int column) const;
  absl::string_view Bytes(int column) const;

 private:
  friend class Sqlite;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = 0;  // the first since Reset
};

// Resets a statement at the end of a scope, so that no error path leaves a read open.
class SqliteScope {
 public:
  explicit SqliteScope(SqliteStatement& statement) : statement_(statement) {}
  ~SqliteScope() { statement_.Reset(); }
  SqliteScope(const SqliteScope&) = delete;
  SqliteScope& operator=(const SqliteScope&) = delete;

 private:
  SqliteStatement& statement_;
};

class Sqlite {
 public:
  // Makes the file if absent. Errors of all calls name the file; DATA_LOSS for one that is damaged or
  // no database, RESOURCE_EXHAUSTED for a full disk.
  static absl::StatusOr<Sqlite> Open(const std::string& path);

  // One or more statements without parameters.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  // The first column of the first row.
  absl::StatusOr<std::string> Value(const std::string& sql);
  uint64_t LastInsertId() const;
  uint64_t Changes() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// BEGIN IMMEDIATE, and ROLLBACK at the end of the scope unless committed.
class SqliteTransaction {
 public:
  static absl::StatusOr<SqliteTransaction> Begin(Sqlite& database);
  SqliteTransaction(SqliteTransaction&& other) noexcept : database_(other.database_) {
    other.database_ = nullptr;
  }
  ~SqliteTransaction();
  absl::Status Commit();

 private:
  explicit SqliteTransaction(Sqlite* database) : database_(database) {}
  Sqlite* database_;
};

}  // namespace tally
