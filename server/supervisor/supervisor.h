// Everything that happens between jobs and workers: who is alive, which job runs on whom, which
// runs there are. The services call it; it owns the runs, one thread that makes time pass for them
// and one that saves progress, so that a slow disk keeps no lease and no deadline waiting.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/tally/v1/control.pb.h"
#include "proto/tally/v1/training.pb.h"
#include "server/job/registry.h"
#include "server/ledger/keep.h"
#include "server/round/job_run.h"
#include "server/round/membership.h"
#include "server/status/metrics.h"
#include "server/supervisor/absences.h"
#include "server/supervisor/model_store.h"
#include "server/supervisor/run_observer.h"

namespace tally {

// A worker daemon's Session stream. Thread-safe; does nothing once the stream is gone.
class SessionLink {
 public:
  virtual ~SessionLink() = default;
  virtual void Send(v1::SessionDown down) = 0;
  virtual void Close(const absl::Status& status) = 0;
};

struct SupervisorOptions {
  std::string state_dir;
  absl::Duration heartbeat = absl::Seconds(5);
  bool strict_durability = false;
  LedgerKeep keep;
  const Clock* clock = &Clock::System();
};

// Thread-safe. Lock order: a run's lock before the registry's; mutex_ is never held while a run's
// lock is waited for or a link is called.
class Supervisor {
 public:
  // Takes up the jobs that a server before this one left unfinished. Registry, models and metrics
  // outlive the supervisor.
  static std::unique_ptr<Supervisor> Start(SupervisorOptions options, JobRegistry* registry,
                                           ModelStore* models, Metrics* metrics);
  ~Supervisor();

  // -- workers (supervisor_workers.cc) --
  // ALREADY_EXISTS while another daemon of that name is alive (Membership::Join).
  absl::Status OnHello(const v1::Hello& hello, const std::string& address,
                       std::shared_ptr<SessionLink> link);
  // UNAVAILABLE when the lease has ended meanwhile: the worker says hello again.
  absl::Status OnHeartbeat(const v1::Hello& hello, const v1::Heartbeat& heartbeat);
  void OnEvent(const v1::Hello& hello, const v1::WorkerEvent& event);
  void OnLeft(const v1::Hello& hello, const v1::JobLeft& left);
  void OnSessionEnd(const v1::Hello& hello, const SessionLink* link);
  // By name: those that are connected, and those that are drained.
  std::vector<v1::WorkerInfo> Workers() const;
  // The worker as it was when the word came: its job is the one that it leaves. NOT_FOUND for one
  // that is neither connected nor drained, both calls.
  absl::StatusOr<v1::WorkerInfo> Drain(const std::string& worker, const std::string& reason);
  absl::StatusOr<v1::WorkerInfo> Undrain(const std::string& worker);

  // -- jobs (supervisor_jobs.cc) --
  // INVALID_ARGUMENT with every problem of the spec; NOT_FOUND for a base that was not uploaded.
  absl::StatusOr<JobRegistry::Submitted> Submit(const v1::JobSpec& spec, const std::string& token);
  absl::StatusOr<v1::JobStatus> Cancel(const std::string& job_id, const std::string& reason);
  // JobRegistry::Hold and Unhold, and the run's.
  absl::StatusOr<v1::JobStatus> Pause(const std::string& job_id, const std::string& reason);
  absl::StatusOr<v1::JobStatus> Resume(const std::string& job_id);
  absl::StatusOr<std::shared_ptr<JobRun>> FindRun(const std::string& job_id) const;
  // The Hugging Face directory of a job's result. FAILED_PRECONDITION unless it SUCCEEDED.
  absl::StatusOr<std::string> ResultFolder(const std::string& job_id) const;
  // Where all of a job's files are; there may be none.
  std::string FolderOf(const std::string& job_id) const;

 private:
  // A worker that could not go on with a job, which is not given it again until its daemon is started
  // anew or some time has passed.
  struct Unwanted {
    std::string instance;
    absl::Duration until;
  };
  struct Run {
    std::shared_ptr<RunObserver> observer;
    std::shared_ptr<JobRun> run;
    absl::Duration replace_after;
    Absences absences = {};
    std::map<std::string, Unwanted> unwanted = {};  // by worker
    std::set<std::string> released = {};            // former members that were told so
  };
  struct Message {
    std::shared_ptr<SessionLink> link;
    v1::SessionDown down;
  };
  struct Leaver {
    std::shared_ptr<JobRun> run;
    std::string worker;
    std::string reason;
  };

  Supervisor(SupervisorOptions options, JobRegistry* registry, ModelStore* models,
             Metrics* metrics);
  void ResumeUnfinished();
  absl::Status TakeUp(const UnfinishedJob& job);
  absl::Status OpenRun(const UnfinishedJob& job);

  // Scheduling (supervisor_schedule.cc).
  void Schedule();
  std::vector<KnownWorker> KnownWorkers() const;
  // Those that another worker could join, the oldest first.
  std::vector<OpenJob> OpenJobs() const;
  std::set<std::string> UnwantedAt(const std::string& job_id) const;
  void StartJob(const JobStart& start);
  void GrowJob(const JobGrowth& growth);
  // Busy with the job from now on; null if it is gone this moment, and is told when it is back.
  std::shared_ptr<SessionLink> Occupy(const std::string& worker, const std::string& job_id);
  void SendAssignment(const JobRun& run, const std::string& worker, SessionLink& link) const;

  // The run that this worker is a member of; null if none.
  std::shared_ptr<JobRun> RunOf(const std::string& worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsMember(const JobRun& run, const std::string& worker);
  v1::WorkerInfo InfoOf(const LiveWorker& worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // NOT_FOUND as Drain says it.
  absl::StatusOr<v1::WorkerInfo> FindWorker(const std::string& worker) const;
  // A member could not go on.
  void OnMemberFailed(const v1::Hello& hello, const v1::JobLeft& left, JobRun& run);

  void Tick();
  void ExpireLeases();
  void VacateAbsent();
  void ReleaseFormer();
  void ReleaseEnded();
  std::set<std::string> JobsDone();
  void MakeTimePass();
  void KeepSaving();

  const SupervisorOptions options_;
  JobRegistry* const registry_;
  ModelStore* const models_;
  Metrics* const metrics_;

  // One scheduling at a time, and none while what it rests on changes; taken before mutex_.
  absl::Mutex scheduling_;
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(scheduling_);
  Membership membership_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<SessionLink>> links_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Run> runs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
  std::thread saver_;
};

}  // namespace tally
