#include "worker/checkpoint/checkpoint_folder.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/paths.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

constexpr char kFile[] = "checkpoint.safetensors";

// Names in a folder; none if it cannot be listed.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  return names;
}

void RemoveLogged(const std::string& path) {
  const absl::Status removed = RemoveTree(path);
  if (!removed.ok()) spdlog::warn("{}", std::string(removed.message()));
}

}  // namespace

absl::StatusOr<CheckpointFolder> CheckpointFolder::Of(const std::string& state_dir,
                                                      const std::string& job_id) {
  if (!IsPlainFileName(job_id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("job id: expected a name without '/', found \"", job_id, "\""));
  }
  return CheckpointFolder(absl::StrCat(state_dir, "/jobs"), job_id);
}

std::string CheckpointFolder::folder() const { return absl::StrCat(jobs_, "/", job_id_); }
std::string CheckpointFolder::file() const { return absl::StrCat(folder(), "/", kFile); }

std::optional<JobCheckpoint> CheckpointFolder::Load(const CheckpointKey& key) const {
  absl::StatusOr<JobCheckpoint> checkpoint = ReadJobCheckpoint(file());
  if (absl::IsNotFound(checkpoint.status())) return std::nullopt;
  if (!checkpoint.ok()) {
    spdlog::warn("job {}: its checkpoint is not used: {}", job_id_,
                 std::string(checkpoint.status().message()));
    return std::nullopt;
  }
  if (checkpoint->key == key) return *std::move(checkpoint);
  spdlog::info("job {}: {} is another job's or another place's; it is removed", job_id_, file());
  Remove();
  return std::nullopt;
}

absl::Status CheckpointFolder::Write(const JobCheckpoint& checkpoint) const {
  TALLY_RETURN_IF_ERROR(MakeFolders(folder()));
  RemoveLeftovers();
  return WriteJobCheckpoint(file(), checkpoint);
}

void CheckpointFolder::RemoveLeftovers() const {
  for (const std::string& name : NamesIn(folder())) {
    if (name != kFile && absl::StartsWith(name, kFile)) {
      RemoveLogged(absl::StrCat(folder(), "/", name));
    }
  }
}

void CheckpointFolder::Remove() const { RemoveLogged(folder()); }

void CheckpointFolder::RemoveOthers() const {
  for (const std::string& name : NamesIn(jobs_)) {
    if (name != job_id_) RemoveLogged(absl::StrCat(jobs_, "/", name));
  }
}

}  // namespace tally
