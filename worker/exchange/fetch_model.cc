#include "worker/exchange/fetch_model.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/status.h"
#include "proto/tally/v1/training.grpc.pb.h"

namespace tally {
namespace {

// The server is trusted with plain names only.
absl::Status CheckPlainName(const std::string& name) {
  const bool plain = !name.empty() && name[0] != '.' && name.size() <= 200 &&
                     name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (plain) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("base model: \"", name, "\" is no file name"));
}

// Writes the parts of one stream into files of `folder`.
class PartWriter {
 public:
  explicit PartWriter(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Take(const v1::FilePart& part) {
    if (!part.name().empty()) TALLY_RETURN_IF_ERROR(Begin(part));
    if (!file_.is_open()) return absl::DataLossError("base model: data before a file name");
    file_.write(part.data().data(), static_cast<std::streamsize>(part.data().size()));
    written_ += part.data().size();
    if (!file_.good()) return ErrnoStatus(errno, "writing", path_);
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (!file_.is_open()) return absl::OkStatus();
    file_.close();
    if (written_ == expected_) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path_, ": expected ", expected_, " bytes, found ", written_));
  }

 private:
  absl::Status Begin(const v1::FilePart& part) {
    TALLY_RETURN_IF_ERROR(Finish());
    TALLY_RETURN_IF_ERROR(CheckPlainName(part.name()));
    path_ = absl::StrCat(folder_, "/", part.name());
    expected_ = part.size();
    written_ = 0;
    file_.open(path_, std::ios::binary | std::ios::trunc);
    return file_.is_open() ? absl::OkStatus() : ErrnoStatus(errno, "creating", path_);
  }

  const std::string folder_;
  std::string path_;
  std::ofstream file_;
  uint64_t expected_ = 0;
  uint64_t written_ = 0;
};

absl::Status FetchInto(const std::shared_ptr<grpc::Channel>& channel, const std::string& digest,
                       const std::string& folder) {
  const std::unique_ptr<v1::TrainingService::Stub> stub = v1::TrainingService::NewStub(channel);
  grpc::ClientContext context;
  v1::FetchModelRequest request;
  request.set_digest(digest);
  const auto stream = stub->FetchModel(&context, request);
  PartWriter writer(folder);
  absl::Status written;
  v1::FilePart part;
  while (written.ok() && stream->Read(&part)) written = writer.Take(part);
  if (!written.ok()) context.TryCancel();
  const absl::Status status = FromGrpcStatus(stream->Finish());
  TALLY_RETURN_IF_ERROR(written);
  TALLY_RETURN_IF_ERROR(WithContext(status, absl::StrCat("base model ", digest)));
  return writer.Finish();
}

}  // namespace

absl::StatusOr<std::string> FetchModel(const std::shared_ptr<grpc::Channel>& channel,
                                       const std::string& digest, const std::string& cache) {
  const std::string folder = absl::StrCat(cache, "/models/", digest);
  struct stat info;
  if (::stat(folder.c_str(), &info) == 0) return folder;
  const std::string temporary = absl::StrCat(folder, ".tmp.", ::getpid());
  TALLY_RETURN_IF_ERROR(RemoveTree(temporary));
  TALLY_RETURN_IF_ERROR(MakeFolders(temporary));
  absl::Status status = FetchInto(channel, digest, temporary);
  if (status.ok() && ::rename(temporary.c_str(), folder.c_str()) != 0) {
    status = ErrnoStatus(errno, "renaming to", folder);
  }
  if (status.ok()) return folder;
  (void)RemoveTree(temporary);
  return status;
}

}  // namespace tally
