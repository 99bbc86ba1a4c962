#include "server/service/file_stream.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/status.h"

namespace tally {
namespace {

constexpr uint64_t kPartBytes = 1 << 20;

}  // namespace

grpc::ServerWriteReactor<v1::FilePart>* FileStream::Serve(
    const absl::StatusOr<std::string>& folder, const std::vector<std::string>& names) {
  std::shared_ptr<FileStream> stream(new FileStream(names));
  grpc::ServerWriteReactor<v1::FilePart>* reactor = Start(stream);
  if (folder.ok()) {
    stream->Begin(*folder);
  } else {
    stream->FinishWith(ToGrpcStatus(folder.status()));
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::FilePart>* FileStream::ServeMade(
    MakeModel make, const std::vector<std::string>& names, TaskThreads* threads,
    OpenStreams* streams) {
  std::shared_ptr<FileStream> stream(new FileStream(names));
  grpc::ServerWriteReactor<v1::FilePart>* reactor = Start(stream, streams);
  stream->made_ = true;
  const absl::Status started = threads->Start("", [stream, make = std::move(make)] {
    const grpc::Status status = stream->MakeAndKeep(make);
    return [stream, status] { stream->FinishWith(status); };
  });
  if (!started.ok()) stream->FinishWith(ToGrpcStatus(started));
  return reactor;
}

grpc::Status FileStream::MakeAndKeep(const MakeModel& make) {
  const auto model = make([this] { return !over_.HasBeenNotified(); });
  if (!model.ok()) return ToGrpcStatus(model.status());
  Begin((*model)->folder());
  over_.WaitForNotification();
  return grpc::Status::OK;
}

void FileStream::Over() {
  if (!is_over_.exchange(true)) over_.Notify();
}

void FileStream::Begin(const std::string& folder) {
  folder_ = folder;
  ready_ = true;
  Wake();
}

FileStream::Pulled FileStream::Pull() {
  Pulled pulled;
  if (!ready_) return pulled;
  v1::FilePart part;
  if (left_ == 0) {
    if (next_ == names_.size()) {
      Over();
      if (!made_) pulled.finish = grpc::Status::OK;
      return pulled;
    }
    if (const absl::Status opened = OpenNext(part); !opened.ok()) {
      pulled.finish = ToGrpcStatus(opened);
      return pulled;
    }
  }
  std::string& data = *part.mutable_data();
  data.resize(std::min(left_, kPartBytes));
  if (!file_.read(data.data(), static_cast<std::streamsize>(data.size()))) {
    pulled.finish = ToGrpcStatus(
        absl::DataLossError(absl::StrCat(names_[next_ - 1], " became shorter while it was read")));
    return pulled;
  }
  left_ -= data.size();
  pulled.message = std::move(part);
  return pulled;
}

absl::Status FileStream::OpenNext(v1::FilePart& part) {
  const std::string& name = names_[next_++];
  const std::string path = absl::StrCat(folder_, "/", name);
  std::error_code error;
  left_ = std::filesystem::file_size(path, error);
  file_.close();
  file_.clear();
  file_.open(path, std::ios::binary);
  if (error || !file_.is_open()) return ErrnoStatus(error ? error.value() : errno, "opening", name);
  part.set_name(name);
  part.set_size(left_);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ModelFiles(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), "reading", folder);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::make_pair(a != "config.json", a) < std::make_pair(b != "config.json", b);
  });
  return names;
}

}  // namespace tally
