// The worker daemon: keeps a session with the server, takes part in the jobs it is assigned to.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "grpcpp/channel.h"
#include "proto/tally/v1/training.pb.h"
#include "worker/daemon/session.h"
#include "worker/daemon/worker_config.h"
#include "worker/training_loop.h"

namespace tally {

class Daemon {
 public:
  // FAILED_PRECONDITION if another daemon has the state directory; INVALID_ARGUMENT for what
  // CheckMachine finds.
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(WorkerConfig config);
  ~Daemon();

  // Until Stop. Connects again, with growing pauses, whatever the server does; only a name that
  // another daemon uses, credentials that are refused, or reconnect_limit without a server end it
  // with an error.
  absl::Status Run();
  // From any thread. The job at work finishes its step and writes its checkpoint.
  void Stop();
  // Whether the job has ended within `grace` after Stop. Destruction waits for it however long its
  // step takes.
  bool WaitForWork(absl::Duration grace);

 private:
  // The job at work. Guarded by the daemon's lock, its thread apart.
  struct Work {
    std::string job_id;
    uint64_t job_key = 0;
    uint32_t index = 0;
    std::thread thread;
    std::shared_ptr<TrainingLoop> loop;  // null while it is built
    bool cancelled = false;
    bool done = false;
  };

  Daemon(WorkerConfig config, std::shared_ptr<grpc::Channel> channel, FileLock lock);
  v1::Hello HelloMessage() const;
  absl::Status RunSession();
  absl::Status CheckLimit(const absl::Status& last) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnMessage(const v1::SessionDown& down);
  void OnAssignment(const v1::Assignment& assignment);
  void OnRelease(const v1::Release& release);
  void DoJob(const v1::Assignment& assignment);
  absl::Status Train(const v1::Assignment& assignment);
  absl::StatusOr<TrainingOptions> OptionsFor(const v1::Assignment& assignment);
  void Report(const std::string& job_id, const std::string& level, const std::string& message);
  // Ends the job at work, if there is one, and waits for it; false if the daemon is to stop first.
  bool EndWork();
  bool IsAt(const v1::Assignment& assignment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Beat();

  const WorkerConfig config_;
  const std::shared_ptr<grpc::Channel> channel_;
  const FileLock lock_;
  const std::string instance_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(5);
  bool beat_now_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  // Steady time that the last session with a welcome ended, or that the daemon began.
  absl::Duration alone_since_ ABSL_GUARDED_BY(mutex_);
  bool welcomed_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Work> work_ ABSL_GUARDED_BY(mutex_);
  std::thread heart_;
};

}  // namespace tally
