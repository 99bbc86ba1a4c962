// The jobs that the server knows: what is in the store, with live progress on top, and whoever
// wants to hear of changes. Every change of state is on disk before anybody is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "proto/tally/v1/control.pb.h"
#include "proto/tally/v1/job.pb.h"
#include "server/job/scheduler.h"
#include "server/job/store.h"
#include "server/job/subscription.h"

namespace tally {

// A job that has begun and not ended.
struct UnfinishedJob {
  v1::JobStatus status;
  std::vector<std::string> workers;  // by index, "" for a vacant place
  std::string held_reason;           // of status.held
};

// Thread-safe. Calls with an unknown job answer NOT_FOUND.
class JobRegistry {
 public:
  using Submitted = JobStore::Inserted;

  // `clock` outlives the registry.
  static absl::StatusOr<std::unique_ptr<JobRegistry>> Open(const std::string& state_dir,
                                                           const Clock* clock = &Clock::System());

  // The spec is stored as it is; check it before. The same token gives the same job;
  // ALREADY_EXISTS if it came with another spec, INVALID_ARGUMENT for a token that is none.
  absl::StatusOr<Submitted> Submit(const v1::JobSpec& spec, const std::string& token);
  absl::StatusOr<v1::JobStatus> Get(const std::string& job_id) const;
  // Newest first.
  std::vector<v1::JobStatus> List() const;
  // PENDING jobs in the order of submission.
  std::vector<QueuedJob> Queue() const;
  // Jobs in WAITING, RUNNING, PAUSED or FINALIZING, oldest first: after Open, those that a crash or
  // a restart interrupted.
  std::vector<UnfinishedJob> Unfinished() const;

  // PENDING -> WAITING with these workers, by index. FAILED_PRECONDITION if it is no longer PENDING:
  // it was cancelled meanwhile, and nobody may be told to start.
  absl::Status Assign(const std::string& job_id, const std::vector<std::string>& workers);
  // Who has which place now, by index, "" for a vacant one; on disk when the call returns. What a place
  // has done so far stays with it. FAILED_PRECONDITION for a job that is not at work.
  absl::Status SetPlaces(const std::string& job_id, const std::vector<std::string>& workers);
  // FAILED_PRECONDITION if `to` may not follow; from PENDING to WAITING only Assign leads. A
  // repetition of the present state changes the reason if there is a new one, and nothing at all in a
  // terminal state. A terminal state is on disk when the call returns OK; that another one could not
  // be written (disk full) is logged only.
  absl::Status Transition(const std::string& job_id, v1::JobState to, const std::string& reason);
  // A person's word that the job is to go no further, or may again; on disk when the call returns.
  // True if that is news. FAILED_PRECONDITION for holding a job whose rounds are done, and for both
  // after its end.
  absl::StatusOr<bool> Hold(const std::string& job_id, const std::string& reason);
  absl::StatusOr<bool> Unhold(const std::string& job_id);

  // Workers that get no new job, by name, and why; on disk when the call returns.
  absl::Status Drain(const std::string& worker, const std::string& reason);
  absl::Status Undrain(const std::string& worker);
  std::map<std::string, std::string> Drained() const;

  // Why a job still waits; nothing is written. Only for PENDING jobs, else ignored.
  void ExplainWait(const std::string& job_id, const std::string& reason);

  // In memory; cheap. `change` runs under the lock: it must not call back. What it does to id, state,
  // reason, hold and times does not count; the spec it leaves alone. A terminal job no longer changes.
  void UpdateProgress(const std::string& job_id,
                      const std::function<void(v1::JobStatus&)>& change);
  // Writes progress that changed since the last call, for after a restart; call it every few
  // seconds. Transitions write theirs.
  absl::Status SaveProgress();

  // `level` is info, warning or error. Also goes to the log. A message above 4 KiB is cut.
  absl::Status AddEvent(const std::string& job_id, const std::string& level,
                        const std::string& worker, const std::string& message);
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job_id, uint64_t after,
                                                   uint32_t limit = 1000) const;

  // Calls `callback` after every change with the status then, on the thread that made the change and
  // with no lock of the registry held; one call at a time, never an older status after a newer one
  // (intermediate ones may be left out, the last one never is). The status at the time of subscribing
  // is not sent: subscribe first, then Get. The callback may Unsubscribe itself, but not change jobs.
  absl::StatusOr<uint64_t> Subscribe(const std::string& job_id, Interest interest,
                                     StatusCallback callback);
  // After it returns the callback does not run and never will, unless it is the caller.
  void Unsubscribe(uint64_t subscription);

 private:
  struct Job {
    v1::JobStatus status;
    std::vector<std::string> workers;
    std::string held_reason;
    uint64_t version = 0;  // counts changes of status and events
    bool unsaved = false;  // progress newer than the store's
  };

  // Whom to tell what, once the lock is released.
  struct Notice {
    v1::JobStatus status;
    uint64_t version = 0;
    std::vector<std::shared_ptr<Subscription>> listeners;
  };
  using Notices = std::vector<Notice>;
  static void Deliver(const Notices& notices);

  JobRegistry(std::unique_ptr<JobStore> store, const Clock* clock)
      : store_(std::move(store)), clock_(clock) {}
  absl::Status LoadJobs();
  absl::StatusOr<uint64_t> NumberOf(const std::string& job_id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  uint32_t QueuePosition(uint64_t number) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // A copy with its place in the queue.
  v1::JobStatus StatusOf(uint64_t number) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // The status as it will be in state `to`.
  v1::JobStatus Plan(const v1::JobStatus& now, v1::JobState to, const std::string& reason) const;
  absl::StatusOr<Notices> CommitAssignment(const std::string& job_id,
                                           const std::vector<std::string>& workers)
      ABSL_LOCKS_EXCLUDED(transitions_, mutex_);
  absl::StatusOr<Notices> CommitPlaces(const std::string& job_id,
                                       const std::vector<std::string>& workers)
      ABSL_LOCKS_EXCLUDED(transitions_, mutex_);
  // Empty if it is as it was.
  absl::StatusOr<Notices> CommitHold(const std::string& job_id, bool held,
                                     const std::string& reason, bool& news)
      ABSL_LOCKS_EXCLUDED(transitions_, mutex_);
  absl::StatusOr<Notices> CommitTransition(const std::string& job_id, v1::JobState to,
                                           const std::string& reason)
      ABSL_LOCKS_EXCLUDED(transitions_, mutex_);
  // Takes over what is on disk now.
  Notices Adopt(const v1::JobStatus& planned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a change of the job; appends a notice if anybody listens.
  void Changed(uint64_t number, bool event_only, Notices& notices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double Now() const;

  const std::unique_ptr<JobStore> store_;
  const Clock* const clock_;

  // Held over check, write and adoption of a change of state, so that readers and rounds do not wait
  // for the disk. Taken before mutex_.
  absl::Mutex transitions_;
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(transitions_);
  std::map<uint64_t, Job> jobs_ ABSL_GUARDED_BY(mutex_);  // by number
  std::map<std::string, std::string> drained_ ABSL_GUARDED_BY(mutex_);  // why, by worker
  std::map<uint64_t, std::shared_ptr<Subscription>> subscriptions_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_subscription_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tally
