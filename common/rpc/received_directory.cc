#include "common/rpc/received_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {
namespace {

namespace fs = std::filesystem;

absl::Status Exists(const std::string& path, absl::string_view advice) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected no such directory, found one", advice));
}

// What --force may take away: a flat directory that looks like an earlier download.
bool LooksLikeModel(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path / "config.json", error)) return false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (!entry.is_regular_file(error)) return false;
  }
  return !error;
}

absl::Status CheckTarget(const std::string& path, bool replace) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return absl::OkStatus();
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a directory or nothing, found something else"));
  }
  if (fs::is_empty(path, error) && !error) return absl::OkStatus();
  if (!replace) return Exists(path, "; --force replaces it");
  if (LooksLikeModel(path)) return absl::OkStatus();
  return Exists(path, " that is not an earlier download (config.json and plain files only)");
}

bool IsPlainName(absl::string_view name) {
  const auto allowed = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

absl::Status Lost(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the download is damaged: ", what));
}

std::string Sibling(std::string path, absl::string_view suffix) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return absl::StrCat(path, suffix);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReceivedDirectory>> ReceivedDirectory::Create(
    const std::string& path, bool replace) {
  if (path.empty()) return absl::InvalidArgumentError("expected an output directory, found \"\"");
  TALLY_RETURN_IF_ERROR(CheckTarget(path, replace));
  std::string temporary = Sibling(path, ".partial-XXXXXX");
  if (mkdtemp(temporary.data()) == nullptr) {
    return absl::InvalidArgumentError(ErrnoStatus(errno, "create beside", path).message());
  }
  return std::unique_ptr<ReceivedDirectory>(
      new ReceivedDirectory(Sibling(path, ""), std::move(temporary)));
}

ReceivedDirectory::~ReceivedDirectory() {
  if (!temporary_.empty()) RemoveTree(temporary_).IgnoreError();
}

absl::Status ReceivedDirectory::Add(const v1::FilePart& part) {
  if (!part.name().empty()) {
    TALLY_RETURN_IF_ERROR(EndFile());
    TALLY_RETURN_IF_ERROR(BeginFile(part));
  }
  if (!file_.valid()) return Lost("data before the first file's name");
  if (part.data().size() > left_) {
    return Lost(absl::StrCat(name_, " has more bytes than announced"));
  }
  return Write(part.data());
}

absl::Status ReceivedDirectory::BeginFile(const v1::FilePart& part) {
  if (!IsPlainName(part.name())) {
    return Lost(absl::StrCat("expected a plain file name, found \"",
                             absl::CHexEscape(part.name().substr(0, 100)), "\""));
  }
  if (!names_.insert(part.name()).second) return Lost(absl::StrCat(part.name(), " came twice"));
  name_ = part.name();
  left_ = part.size();
  const std::string path = absl::StrCat(temporary_, "/", name_);
  file_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  return file_.valid() ? absl::OkStatus() : ErrnoStatus(errno, "create", path);
}

absl::Status ReceivedDirectory::Write(absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(file_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write", absl::StrCat(temporary_, "/", name_));
    data.remove_prefix(written);
    left_ -= written;
    bytes_ += written;
  }
  return absl::OkStatus();
}

absl::Status ReceivedDirectory::EndFile() {
  if (!file_.valid()) return absl::OkStatus();
  if (left_ > 0) return Lost(absl::StrCat(name_, " ends ", left_, " bytes early"));
  if (fsync(file_.get()) != 0) return ErrnoStatus(errno, "sync", name_);
  file_ = FileDescriptor();
  return absl::OkStatus();
}

absl::Status ReceivedDirectory::MoveIntoPlace() {
  if (chmod(temporary_.c_str(), 0755) != 0) return ErrnoStatus(errno, "chmod", temporary_);
  std::error_code error;
  std::string old;
  if (fs::exists(path_, error) && !fs::is_empty(path_, error)) {
    old = absl::StrCat(temporary_, "-old");
    if (rename(path_.c_str(), old.c_str()) != 0) return ErrnoStatus(errno, "rename", path_);
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    const absl::Status failed = ErrnoStatus(errno, "rename to", path_);
    if (!old.empty()) rename(old.c_str(), path_.c_str());
    return failed;
  }
  temporary_.clear();
  return old.empty() ? absl::OkStatus() : RemoveTree(old);
}

absl::Status ReceivedDirectory::Finish() {
  if (names_.empty()) return Lost("it has no files");
  TALLY_RETURN_IF_ERROR(EndFile());
  TALLY_RETURN_IF_ERROR(SyncFolder(temporary_));
  TALLY_RETURN_IF_ERROR(MoveIntoPlace());
  const std::string parent = fs::path(path_).parent_path().string();
  return SyncFolder(parent.empty() ? "." : parent);
}

}  // namespace tally
