// STATE_DIR/jobs/JOB/ on a worker: the one place of a job's checkpoint.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/job_checkpoint.h"

namespace tally {

class CheckpointFolder {
 public:
  // INVALID_ARGUMENT for a job id that is no name of a folder. Makes nothing.
  static absl::StatusOr<CheckpointFolder> Of(const std::string& state_dir,
                                             const std::string& job_id);

  // The checkpoint if there is a whole one for `key`. Another place's or job's is removed; one that
  // cannot be read is left alone. The log says so; nothing here is an error.
  std::optional<JobCheckpoint> Load(const CheckpointKey& key) const;
  // Makes the folder if need be. What a killed write has left is removed.
  absl::Status Write(const JobCheckpoint& checkpoint) const;
  // The job has ended. Failures are logged.
  void Remove() const;
  // Folders of all other jobs: the worker is at this one now.
  void RemoveOthers() const;

  std::string file() const;

 private:
  CheckpointFolder(std::string jobs, std::string job_id)
      : jobs_(std::move(jobs)), job_id_(std::move(job_id)) {}
  std::string folder() const;
  void RemoveLeftovers() const;

  std::string jobs_;
  std::string job_id_;
};

}  // namespace tally
