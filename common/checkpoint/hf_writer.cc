#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"
#include "common/checkpoint/paths.h"
#include "common/checkpoint/strict_json.h"

namespace tally {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kConfigFile[] = "config.json";

// Absolute and without a trailing separator, so that siblings can be named.
absl::StatusOr<std::string> TargetPath(const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos) {
    return absl::InvalidArgumentError("expected the path of a folder, found an empty one or a NUL");
  }
  std::error_code error;
  std::filesystem::path target = std::filesystem::absolute(path, error).lexically_normal();
  if (error) return ErrnoStatus(error.value(), "resolving", path);
  if (!target.has_filename()) target = target.parent_path();
  if (!target.has_filename()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a folder below the root"));
  }
  return target.string();
}

absl::Status CheckTarget(const std::string& path, bool replace_existing) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return absl::OkStatus();
  if (error) return ErrnoStatus(error.value(), "looking at", path);
  if (!std::filesystem::is_directory(status)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": expected a folder or nothing, found another kind of file"));
  }
  const bool empty = std::filesystem::is_empty(path, error);
  if (error) return ErrnoStatus(error.value(), "reading", path);
  if (empty || replace_existing) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(path, ": expected an empty folder or nothing, found a folder with files"));
}

absl::Status CheckOptions(const HfWriterOptions& options) {
  if (!options.config_json.empty()) {
    TALLY_RETURN_IF_ERROR(
        WithContext(ParseJsonObject(options.config_json).status(), kConfigFile));
  }
  for (const auto& [name, contents] : options.extra_files) {
    if (!IsPlainFileName(name) || name == kConfigFile || name.starts_with("model")) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected the name of an extra file in the folder, found ", name));
    }
  }
  return absl::OkStatus();
}

// Puts `from` at `to`, which is absent, empty, or to be replaced. Leaves what it replaced at
// `from`, if anything, for the caller to remove.
absl::Status MoveIntoPlace(const std::string& from, const std::string& to, bool replace) {
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const bool occupied = errno == ENOTEMPTY || errno == EEXIST;
  if (!occupied || !replace) return ErrnoStatus(errno, "renaming to", to);
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, "exchanging with", to);
  // Some network file systems cannot exchange; for a moment there is nothing at `to`.
  const std::string aside = TemporaryBeside(to);
  if (::rename(to.c_str(), aside.c_str()) != 0) return ErrnoStatus(errno, "moving aside", to);
  if (::rename(from.c_str(), to.c_str()) == 0) return RemoveTree(aside);
  const absl::Status status = ErrnoStatus(errno, "renaming to", to);
  ::rename(aside.c_str(), to.c_str());
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HfDirectoryWriter>> HfDirectoryWriter::Create(
    const std::string& path, std::vector<TensorInfo> tensors, HfWriterOptions options) {
  TALLY_ASSIGN_OR_RETURN(std::string target, TargetPath(path));
  TALLY_RETURN_IF_ERROR(CheckTarget(target, options.replace_existing));
  TALLY_RETURN_IF_ERROR(WithContext(CheckOptions(options), path));
  TALLY_RETURN_IF_ERROR(WithContext(PlaceTensors(tensors), path));
  std::string temporary = TemporaryBeside(target);
  TALLY_RETURN_IF_ERROR(RemoveTree(temporary));  // of a process that died with the same id
  if (::mkdir(temporary.c_str(), 0755) != 0) return ErrnoStatus(errno, "making folder", temporary);
  auto writer = std::unique_ptr<HfDirectoryWriter>(
      new HfDirectoryWriter(std::move(target), std::move(temporary), std::move(options)));
  writer->PlanShards(std::move(tensors));
  TALLY_RETURN_IF_ERROR(writer->WriteSmallFiles());
  TALLY_RETURN_IF_ERROR(writer->NextShard());
  return writer;
}

HfDirectoryWriter::~HfDirectoryWriter() {
  writer_.reset();
  if (temporary_.empty()) return;
  const absl::Status status = RemoveTree(temporary_);
  static_cast<void>(status);  // nobody is left to tell; the target is untouched
}

void HfDirectoryWriter::PlanShards(std::vector<TensorInfo> tensors) {
  shards_.emplace_back();
  for (TensorInfo& tensor : tensors) {
    const uint64_t bytes = tensor.bytes();
    const bool full = shards_.back().bytes > 0 &&
                      (bytes > options_.max_shard_bytes ||
                       shards_.back().bytes > options_.max_shard_bytes - bytes);
    if (full) shards_.emplace_back();
    shards_.back().bytes += bytes;
    shards_.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].file = shards_.size() == 1 ? kSingleFile
                                          : absl::StrFormat("model-%05d-of-%05d.safetensors",
                                                            i + 1, shards_.size());
  }
}

absl::Status HfDirectoryWriter::WriteSmallFiles() {
  std::map<std::string, std::string> files = options_.extra_files;
  if (!options_.config_json.empty()) files[kConfigFile] = options_.config_json;
  if (shards_.size() > 1) files[kIndexFile] = IndexJson();
  for (const auto& [name, contents] : files) {
    TALLY_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(temporary_, "/", name), contents));
  }
  return absl::OkStatus();
}

std::string HfDirectoryWriter::IndexJson() const {
  nlohmann::json index;
  uint64_t total = 0;
  for (const Shard& shard : shards_) {
    total += shard.bytes;
    for (const TensorInfo& tensor : shard.tensors) index["weight_map"][tensor.name] = shard.file;
  }
  index["metadata"]["total_size"] = total;
  return index.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status HfDirectoryWriter::NextShard() {
  if (writer_ != nullptr) TALLY_RETURN_IF_ERROR(writer_->Finish());
  const Shard& shard = shards_[next_shard_++];
  TALLY_ASSIGN_OR_RETURN(
      writer_, SafetensorsWriter::Create(absl::StrCat(temporary_, "/", shard.file), shard.tensors,
                                         options_.metadata));
  left_in_shard_ = shard.bytes;
  return absl::OkStatus();
}

absl::Status HfDirectoryWriter::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (left_in_shard_ == 0) {
      if (next_shard_ == shards_.size()) {
        return absl::OutOfRangeError(
            absl::StrCat(path_, ": expected no more data, found ", bytes.size(), " bytes"));
      }
      TALLY_RETURN_IF_ERROR(NextShard());
    }
    const absl::string_view piece = bytes.substr(0, left_in_shard_);
    TALLY_RETURN_IF_ERROR(writer_->Append(piece));
    left_in_shard_ -= piece.size();
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status HfDirectoryWriter::Append(absl::Span<const float> values) {
  return Append(absl::string_view(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float)));
}

absl::Status HfDirectoryWriter::Finish() {
  if (left_in_shard_ > 0 || next_shard_ < shards_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": expected all tensors' data, found the end before"));
  }
  TALLY_RETURN_IF_ERROR(writer_->Finish());
  writer_.reset();
  TALLY_RETURN_IF_ERROR(SyncFolder(temporary_));
  TALLY_RETURN_IF_ERROR(MoveIntoPlace(temporary_, path_, options_.replace_existing));
  TALLY_RETURN_IF_ERROR(SyncFolder(FolderOf(path_)));
  return RemoveTree(std::exchange(temporary_, ""));  // what was replaced, if anything
}

}  // namespace tally
