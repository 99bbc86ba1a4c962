// A file under construction beside its final place.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"

namespace tally {

// Removes its temporary unless committed.
class PendingFile {
 public:
  static absl::StatusOr<PendingFile> Create(const std::string& path);
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;
  ~PendingFile();

  absl::Status Write(absl::string_view bytes);
  // Claims the disk space of `size` bytes now and makes the file that long.
  absl::Status Reserve(uint64_t size);
  // fsync, rename to the final path, fsync of the folder.
  absl::Status Commit();
  const std::string& path() const { return path_; }
  // Empty once committed.
  const std::string& temporary() const { return temporary_; }

 private:
  PendingFile(std::string path, std::string temporary, FileDescriptor fd);

  std::string path_;
  std::string temporary_;  // empty when committed or moved from
  FileDescriptor fd_;
};

}  // namespace tally
