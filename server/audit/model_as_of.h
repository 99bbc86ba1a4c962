// The model as of a training round, as a Hugging Face directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tally {

// A directory of config.json and model.safetensors, removed with the object.
class ExportedModel {
 public:
  explicit ExportedModel(std::string root) : root_(std::move(root)) {}
  ~ExportedModel();
  ExportedModel(const ExportedModel&) = delete;
  ExportedModel& operator=(const ExportedModel&) = delete;
  // Below it is the directory, named by its round as a snapshot's is.
  const std::string& root() const { return root_; }
  const std::string& folder() const { return folder_; }

 private:
  friend class ModelExports;
  const std::string root_;
  std::string folder_;
};

// Thread-safe.
class ModelExports {
 public:
  // What an earlier server left in STATE_DIR/exports is removed.
  explicit ModelExports(const std::string& state_dir);

  // A snapshot's files, linked, or the fold of the newest one before. The buffers' round belongs to
  // the training round that it follows. `go_on` is asked again and again.
  //
  // NOT_FOUND for a round that is not kept (any more), OUT_OF_RANGE for one that is to come, both with
  // the rounds there are; RESOURCE_EXHAUSTED without room; DATA_LOSS for a damaged ledger; INTERNAL
  // for other trouble with files; CANCELLED; and those of OpenJobFiles. None tells a server's path.
  absl::StatusOr<std::unique_ptr<ExportedModel>> Make(const std::string& job_id,
                                                      const std::string& job_folder,
                                                      uint64_t training_round,
                                                      const std::function<bool()>& go_on) const;

 private:
  const std::string folder_;
};

}  // namespace tally
