// Files that are whole or absent: written beside their place, synced, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tally {

// "what PATH: strerror(errno)" with a matching code (ENOSPC is RESOURCE_EXHAUSTED, ENOENT NOT_FOUND).
absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path);

absl::StatusOr<std::string> ReadFile(const std::string& path);
// Temp file, fsync, rename, fsync of the folder. On error nothing of it is left at `path`.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents);
absl::Status SyncFolder(const std::string& folder);
// mkdir -p.
absl::Status MakeFolders(const std::string& path);
// rm -r; absent is OK.
absl::Status RemoveTree(const std::string& path);

// Closes its descriptor when it goes out of scope.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();

 private:
  int fd_ = -1;
};

// A file in memory by mmap. The mapping ends with the object.
class MappedFile {
 public:
  // Read-only, shared with the page cache.
  static absl::StatusOr<std::unique_ptr<MappedFile>> OpenReadOnly(const std::string& path);
  // Writes go to the file.
  static absl::StatusOr<std::unique_ptr<MappedFile>> OpenReadWrite(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  // Null for a read-only mapping.
  char* mutable_data() { return writable_ ? static_cast<char*>(data_) : nullptr; }
  size_t size() const { return size_; }
  // msync, waits for the disk.
  absl::Status Sync();

 private:
  MappedFile(void* data, size_t size, bool writable, std::string path)
      : data_(data), size_(size), writable_(writable), path_(std::move(path)) {}
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path, bool writable);
  void* data_;
  size_t size_;
  bool writable_;
  std::string path_;
};

// An exclusive lock on `path` (made if absent) for the life of the object; another process that
// holds it gives FAILED_PRECONDITION with its process id.
class FileLock {
 public:
  static absl::StatusOr<FileLock> Acquire(const std::string& path);

 private:
  explicit FileLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace tally
