#include "common/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::StatusCode CodeForErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string FolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "writing", path);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const std::string& path, absl::string_view contents) {
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "creating", path);
  TALLY_RETURN_IF_ERROR(WriteAll(fd.get(), contents, path));
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "syncing", path);
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what, absl::string_view path) {
  return absl::Status(CodeForErrno(error), absl::StrCat(what, " ", path, ": ", strerror(error)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "reading", path);
    }
    if (got == 0) return contents;
    contents.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view contents) {
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid());
  absl::Status status = WriteAndSync(temporary, contents);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, "renaming to", path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(FolderOf(path));
}

absl::Status SyncFolder(const std::string& folder) {
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", folder);
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "syncing", folder);
  return absl::OkStatus();
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? ErrnoStatus(error.value(), "making folder", path) : absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? ErrnoStatus(error.value(), "removing", path) : absl::OkStatus();
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path,
                                                             bool writable) {
  const FileDescriptor fd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "reading the size of", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                  fd.get(), 0);
    if (data == MAP_FAILED) return ErrnoStatus(errno, "mapping", path);
  }
  return std::unique_ptr<MappedFile>(new MappedFile(data, size, writable, path));
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::OpenReadOnly(const std::string& path) {
  return Open(path, false);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::OpenReadWrite(const std::string& path) {
  return Open(path, true);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::Status MappedFile::Sync() {
  if (size_ > 0 && ::msync(data_, size_, MS_SYNC) != 0) return ErrnoStatus(errno, "syncing", path_);
  return absl::OkStatus();
}

absl::StatusOr<FileLock> FileLock::Acquire(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::read(fd.get(), holder, sizeof holder - 1);
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": locked by process ", got > 0 ? holder : "(unknown)"));
  }
  const std::string self = absl::StrCat(::getpid());
  if (::ftruncate(fd.get(), 0) != 0) return ErrnoStatus(errno, "truncating", path);
  TALLY_RETURN_IF_ERROR(WriteAll(fd.get(), self, path));
  return FileLock(std::move(fd));
}

}  // namespace tally
