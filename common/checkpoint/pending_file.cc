#include "common/checkpoint/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/paths.h"

namespace tally {

PendingFile::PendingFile(std::string path, std::string temporary, FileDescriptor fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::move(other.fd_)) {}

PendingFile::~PendingFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

absl::StatusOr<PendingFile> PendingFile::Create(const std::string& path) {
  std::string temporary = TemporaryBeside(path);
  FileDescriptor fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "creating", temporary);
  return PendingFile(path, std::move(temporary), std::move(fd));
}

absl::Status PendingFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "writing", temporary_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status PendingFile::Reserve(uint64_t size) {
  int error = 0;
  do {
    error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(size));
  } while (error == EINTR);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "claiming disk space for", temporary_);
}

absl::Status PendingFile::Commit() {
  if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "syncing", temporary_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "renaming to", path_);
  }
  temporary_.clear();
  fd_ = FileDescriptor();
  return SyncFolder(FolderOf(path_));
}

}  // namespace tally
