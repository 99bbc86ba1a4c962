#include "client/upload.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"
#include "common/rpc/limits.h"
#include "nlohmann/json.hpp"

namespace tally {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

using Writer = grpc::ClientWriter<v1::UploadModelRequest>;

// Of a directory that CheckpointReader has accepted.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& directory) {
  auto index = ReadFile(absl::StrCat(directory, "/", kIndexFile));
  if (absl::IsNotFound(index.status())) {
    return std::vector<std::string>{"config.json", kSingleFile};
  }
  TALLY_RETURN_IF_ERROR(index.status());
  std::set<std::string> shards;
  const auto json = nlohmann::json::parse(*index, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, "/", kIndexFile, ": expected a weight_map, found none"));
  }
  for (const auto& shard : json["weight_map"]) {
    if (shard.is_string()) shards.insert(shard.get<std::string>());
  }
  std::vector<std::string> files = {"config.json", kIndexFile};
  files.insert(files.end(), shards.begin(), shards.end());
  return files;
}

absl::Status CheckModel(const std::string& directory) {
  auto checkpoint = CheckpointReader::Open(directory);
  if (!checkpoint.ok()) return absl::InvalidArgumentError(checkpoint.status().message());
  if ((*checkpoint)->config_json().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": expected a directory with config.json, found none"));
  }
  return absl::OkStatus();
}

// False when the server ended the call; its status says why.
bool SendFile(Writer& writer, const std::string& name, absl::string_view bytes) {
  v1::UploadModelRequest request;
  request.mutable_part()->set_name(name);
  request.mutable_part()->set_size(bytes.size());
  do {
    const absl::string_view data = bytes.substr(0, kFilePartBytes);
    request.mutable_part()->set_data(data.data(), data.size());
    if (!writer.Write(request)) return false;
    request.Clear();
    bytes.remove_prefix(data.size());
  } while (!bytes.empty());
  return true;
}

// OK also when the server stopped listening.
absl::Status SendFiles(Writer& writer, const std::string& directory,
                       const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    TALLY_ASSIGN_OR_RETURN(auto file, MappedFile::OpenReadOnly(absl::StrCat(directory, "/", name)));
    if (!SendFile(writer, name, file->bytes())) return absl::OkStatus();
  }
  writer.WritesDone();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> UploadModel(Session& session, const std::string& directory) {
  TALLY_RETURN_IF_ERROR(CheckModel(directory));
  TALLY_ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(directory));
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  v1::UploadModelResponse response;
  const auto writer = session.stub().UploadModel(&context, &response);
  const absl::Status sent = SendFiles(*writer, directory, files);
  if (!sent.ok()) context.TryCancel();
  const grpc::Status status = writer->Finish();
  TALLY_RETURN_IF_ERROR(sent);
  TALLY_RETURN_IF_ERROR(session.ServerError(status));
  return response.digest();
}

}  // namespace tally
