// Base models that clients have uploaded: STATE_DIR/models/DIGEST/, each whole or absent.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/digest.h"
#include "proto/tally/v1/control.pb.h"

namespace tally {

// One upload; without Finish nothing of it is left.
class ModelUpload {
 public:
  ~ModelUpload();
  // Parts in order: a name and a size begin a file. INVALID_ARGUMENT for a name that is not plain,
  // DATA_LOSS for a file of another length than announced.
  absl::Status Take(const v1::FilePart& part);
  // The model's digest, over names and contents. The same model uploaded again is the same folder.
  absl::StatusOr<v1::UploadModelResponse> Finish();

 private:
  friend class ModelStore;
  ModelUpload(std::string folder, std::string temporary)
      : folder_(std::move(folder)), temporary_(std::move(temporary)) {}
  absl::Status BeginFile(const v1::FilePart& part);
  absl::Status EndFile();

  const std::string folder_;
  std::string temporary_;  // empty once it is renamed
  std::string name_;
  std::ofstream file_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
  uint64_t total_ = 0;
  Digester digester_;
};

class ModelStore {
 public:
  // Removes what interrupted uploads left.
  static absl::StatusOr<std::unique_ptr<ModelStore>> Open(const std::string& state_dir);
  absl::StatusOr<std::unique_ptr<ModelUpload>> Begin();
  // The model's folder. INVALID_ARGUMENT for a digest that is none, NOT_FOUND.
  absl::StatusOr<std::string> Find(const std::string& digest) const;

 private:
  explicit ModelStore(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

}  // namespace tally
