#include "server/supervisor/model_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"

namespace tally {
namespace {

constexpr char kTemporary[] = ".upload.";

bool IsPlainName(const std::string& name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 200 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool IsDigest(const std::string& text) {
  return text.size() == 16 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c)) &&
                  !absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

absl::Status SyncFile(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() || ::fsync(file.get()) != 0) return ErrnoStatus(errno, "syncing", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelStore>> ModelStore::Open(const std::string& state_dir) {
  const std::string folder = absl::StrCat(state_dir, "/models");
  TALLY_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(kTemporary, 0) != 0) continue;
    TALLY_RETURN_IF_ERROR(RemoveTree(entry.path().string()));
  }
  return std::unique_ptr<ModelStore>(new ModelStore(folder));
}

absl::StatusOr<std::unique_ptr<ModelUpload>> ModelStore::Begin() {
  static std::atomic<uint64_t> uploads{0};
  const std::string temporary = absl::StrCat(folder_, "/", kTemporary, ++uploads);
  TALLY_RETURN_IF_ERROR(MakeFolders(temporary));
  return std::unique_ptr<ModelUpload>(new ModelUpload(folder_, temporary));
}

absl::StatusOr<std::string> ModelStore::Find(const std::string& digest) const {
  if (!IsDigest(digest)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.base_digest: expected 16 lower-case hexadecimal digits, found \"", digest, "\""));
  }
  const std::string path = absl::StrCat(folder_, "/", digest);
  if (Exists(path)) return path;
  return absl::NotFoundError(absl::StrCat("base model ", digest, ": not uploaded to this server"));
}

ModelUpload::~ModelUpload() {
  file_.close();
  if (!temporary_.empty()) (void)RemoveTree(temporary_);
}

absl::Status ModelUpload::Take(const v1::FilePart& part) {
  if (!part.name().empty()) TALLY_RETURN_IF_ERROR(BeginFile(part));
  if (name_.empty()) return absl::InvalidArgumentError("upload: data before a file name");
  file_.write(part.data().data(), static_cast<std::streamsize>(part.data().size()));
  if (!file_.good()) return ErrnoStatus(errno, "writing", absl::StrCat(temporary_, "/", name_));
  written_ += part.data().size();
  digester_.Add(part.data());
  if (written_ > expected_) {
    return absl::DataLossError(
        absl::StrCat("upload: ", name_, ": more than the ", expected_, " bytes announced"));
  }
  return absl::OkStatus();
}

absl::Status ModelUpload::BeginFile(const v1::FilePart& part) {
  TALLY_RETURN_IF_ERROR(EndFile());
  if (!IsPlainName(part.name())) {
    return absl::InvalidArgumentError(
        absl::StrCat("upload: \"", part.name().substr(0, 200), "\" is not a plain file name"));
  }
  name_ = part.name();
  expected_ = part.size();
  written_ = 0;
  digester_.AddUint64(name_.size());
  digester_.Add(name_);
  digester_.AddUint64(expected_);
  const std::string path = absl::StrCat(temporary_, "/", name_);
  if (Exists(path)) return absl::InvalidArgumentError(absl::StrCat("upload: ", name_, " twice"));
  file_.open(path, std::ios::binary | std::ios::trunc);
  return file_.is_open() ? absl::OkStatus() : ErrnoStatus(errno, "creating", path);
}

absl::Status ModelUpload::EndFile() {
  if (name_.empty()) return absl::OkStatus();
  errno = 0;
  file_.close();
  const std::string path = absl::StrCat(temporary_, "/", name_);
  if (!file_.good()) return ErrnoStatus(errno, "writing", path);
  total_ += written_;
  if (written_ != expected_) {
    return absl::DataLossError(absl::StrCat("upload: ", name_, ": expected ", expected_,
                                            " bytes, found ", written_));
  }
  return SyncFile(path);
}

absl::StatusOr<v1::UploadModelResponse> ModelUpload::Finish() {
  if (name_.empty()) return absl::InvalidArgumentError("upload: no file");
  TALLY_RETURN_IF_ERROR(EndFile());
  // Also what shows that no file is missing, of a model in shards too.
  TALLY_ASSIGN_OR_RETURN(const auto checkpoint, CheckpointReader::Open(temporary_));
  if (checkpoint->config_json().empty()) {
    return absl::InvalidArgumentError("upload: config.json is missing");
  }
  v1::UploadModelResponse response;
  response.set_digest(DigestToString(digester_.Finish()));
  response.set_bytes(total_);
  const std::string target = absl::StrCat(folder_, "/", response.digest());
  if (Exists(target)) return response;
  TALLY_RETURN_IF_ERROR(SyncFolder(temporary_));
  if (std::rename(temporary_.c_str(), target.c_str()) != 0) {
    if (Exists(target)) return response;  // the same model, uploaded at the same time
    return ErrnoStatus(errno, "renaming to", target);
  }
  temporary_.clear();
  TALLY_RETURN_IF_ERROR(SyncFolder(folder_));
  return response;
}

}  // namespace tally
