// Everything that happens between jobs and workers: who is alive, which job starts on whom, which
// runs there are. The services call it; it owns the runs and one timer thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
#include "server/round/job_run.h"
#include "server/round/membership.h"
#include "server/status/metrics.h"
#include "server/supervisor/model_store.h"

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
  const Clock* clock = &Clock::System();
};

// Thread-safe. Lock order: a run's lock before the registry's; this one is never held while a run
// or a link is called.
class Supervisor {
 public:
  // Takes up the jobs that a server before this one left unfinished. Registry, models and metrics
  // outlive the supervisor.
  static std::unique_ptr<Supervisor> Start(SupervisorOptions options, JobRegistry* registry,
                                           ModelStore* models, Metrics* metrics);
  ~Supervisor();

  // -- workers --
  // ALREADY_EXISTS while another daemon of that name is alive (Membership::Join).
  absl::Status OnHello(const v1::Hello& hello, const std::string& address,
                       std::shared_ptr<SessionLink> link);
  // UNAVAILABLE when the lease has ended meanwhile: the worker says hello again.
  absl::Status OnHeartbeat(const v1::Hello& hello, const v1::Heartbeat& heartbeat);
  void OnEvent(const v1::Hello& hello, const v1::WorkerEvent& event);
  void OnLeft(const v1::Hello& hello, const v1::JobLeft& left);
  void OnSessionEnd(const v1::Hello& hello, const SessionLink* link);
  std::vector<v1::WorkerInfo> Workers() const;

  // -- jobs --
  // INVALID_ARGUMENT with every problem of the spec; NOT_FOUND for a base that was not uploaded.
  absl::StatusOr<JobRegistry::Submitted> Submit(const v1::JobSpec& spec, const std::string& token);
  absl::StatusOr<v1::JobStatus> Cancel(const std::string& job_id, const std::string& reason);
  absl::StatusOr<std::shared_ptr<JobRun>> FindRun(const std::string& job_id) const;
  // The Hugging Face directory of a job's result. FAILED_PRECONDITION unless it SUCCEEDED.
  absl::StatusOr<std::string> ResultFolder(const std::string& job_id) const;

 private:
  class Observer;
  struct Run {
    std::shared_ptr<Observer> observer;
    std::shared_ptr<JobRun> run;
  };
  struct Message {
    std::shared_ptr<SessionLink> link;
    v1::SessionDown down;
  };

  Supervisor(SupervisorOptions options, JobRegistry* registry, ModelStore* models,
             Metrics* metrics);
  void ResumeUnfinished();
  absl::Status OpenRun(const std::string& job_id, const v1::JobSpec& spec,
                       const std::vector<std::string>& workers);
  void Schedule();
  std::vector<v1::Hello> FreeWorkers() const;
  void StartJob(const JobStart& start, const v1::JobSpec& spec);
  void AnnounceAssignment(const std::string& job_id, const v1::JobSpec& spec,
                          const std::vector<std::string>& workers);
  // The run that this worker is a member of; null if none.
  std::shared_ptr<JobRun> RunOf(const std::string& worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendAssignment(const JobRun& run, const std::string& worker, SessionLink& link) const;
  void Tick();
  void ExpireLeases();
  void ReleaseEnded();
  std::string FolderOf(const std::string& job_id) const;

  const SupervisorOptions options_;
  JobRegistry* const registry_;
  ModelStore* const models_;
  Metrics* const metrics_;

  // One scheduling at a time; taken before mutex_.
  absl::Mutex scheduling_;
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(scheduling_);
  Membership membership_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<SessionLink>> links_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Run> runs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration saved_at_ = absl::ZeroDuration();  // of the timer thread
  std::thread timer_;
};

}  // namespace tally
