// The jobs on disk: STATE_DIR/tally.db, SQLite in WAL mode. What decides a job's fate (submission,
// assignment, state) is synced to the disk before the call returns; events and progress may be
// lost with the machine, never with the process alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/file.h"
#include "proto/tally/v1/control.pb.h"
#include "proto/tally/v1/job.pb.h"
#include "server/job/sqlite.h"

namespace tally {

struct StoredJob {
  // As last saved. Id, spec, state, reason and times are always those of the last change; the rest
  // is from the last SaveProgress or state change.
  v1::JobStatus status;
  std::vector<std::string> workers;  // names by index, "" for a vacant place; empty while PENDING
  std::string held_reason;           // of status.held
};

// Thread-safe.
class JobStore {
 public:
  // Newest lines of a job's log that are kept.
  static constexpr uint64_t kEventsPerJob = 10'000;

  // Makes the folder and the file if absent. FAILED_PRECONDITION: another server holds the folder,
  // or the file is of a newer version. DATA_LOSS: it is damaged, or no database of ours.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& state_dir);
  ~JobStore();

  struct Inserted {
    std::string job_id;
    bool created;  // false: the token was known
  };
  // PENDING. ALREADY_EXISTS if the token came with another spec before.
  absl::StatusOr<Inserted> Insert(const v1::JobSpec& spec, const std::string& token,
                                  double submitted_at);
  // By number, oldest first.
  absl::StatusOr<std::vector<StoredJob>> Load();

  // State, reason, times, hold and summary of `status`. NOT_FOUND for a job that is none.
  absl::Status SaveState(const v1::JobStatus& status);
  // The same, and the job's workers by index, in one transaction.
  absl::Status SaveAssignment(const v1::JobStatus& status,
                              const std::vector<std::string>& workers);
  // Whether a person holds the job, and why.
  absl::Status SaveHold(const std::string& job_id, bool held, const std::string& reason);

  // Workers that get no new job, and why.
  absl::StatusOr<std::map<std::string, std::string>> LoadDrained();
  absl::Status AddDrained(const std::string& worker, const std::string& reason);
  absl::Status RemoveDrained(const std::string& worker);

  // The summary alone, unless the stored state is terminal.
  absl::Status SaveProgress(const v1::JobStatus& status);

  // Gives the event the job's next sequence number, from 1, and returns it.
  absl::StatusOr<uint64_t> AddEvent(const std::string& job_id, const v1::JobEvent& event);
  // At most `limit` events with a sequence above `after`, in order. Where lines had to be dropped, a
  // line that says so stands first and carries the last dropped one's sequence.
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job_id, uint64_t after,
                                                   uint32_t limit);

 private:
  struct Statements;
  JobStore(FileLock lock, Sqlite synced, Sqlite relaxed);
  absl::Status Prepare();
  absl::Status WriteState(const v1::JobStatus& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckChanged(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteWorkers(uint64_t number, const std::vector<std::string>& workers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LoadWorkers(std::vector<StoredJob>& jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Inserted> FindToken(const std::string& token, const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FileLock lock_;
  absl::Mutex mutex_;
  // Two connections to one file, since how much is synced is a property of the connection.
  Sqlite synced_ ABSL_GUARDED_BY(mutex_);
  Sqlite relaxed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Statements> statements_ ABSL_GUARDED_BY(mutex_);
};

// "job-N" and back; NOT_FOUND for other text.
std::string JobIdOf(uint64_t number);
absl::StatusOr<uint64_t> JobNumberOf(absl::string_view job_id);

}  // namespace tally
