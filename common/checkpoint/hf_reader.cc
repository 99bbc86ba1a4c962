#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"
#include "common/checkpoint/paths.h"
#include "common/checkpoint/strict_json.h"

namespace tally {
namespace {

using WeightMap = std::map<std::string, std::string>;  // tensor name to shard file

absl::Status NotAsExpected(absl::string_view path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<WeightMap> ParseWeightMap(absl::string_view text) {
  TALLY_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text));
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) {
    return absl::InvalidArgumentError("expected a weight_map with tensors, found none");
  }
  WeightMap map;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight_map: tensor \"", tensor,
                       "\": expected the name of a file in the same folder, found ", shard.dump()));
    }
    map[tensor] = shard.get<std::string>();
  }
  return map;
}

// Every tensor of the index in the shard it names, and none besides.
absl::Status CheckShard(const std::string& index_path, const WeightMap& map,
                        const std::string& shard_name, const SafetensorsFile& shard) {
  for (const auto& [tensor, file] : map) {
    if (file == shard_name && shard.Find(tensor) == nullptr) {
      return NotAsExpected(index_path, absl::StrCat("tensor \"", tensor, "\": expected it in ",
                                                    shard_name, ", found it missing there"));
    }
  }
  for (const TensorInfo& tensor : shard.tensors()) {
    const auto found = map.find(tensor.name);
    if (found == map.end() || found->second != shard_name) {
      return NotAsExpected(
          index_path, absl::StrCat("tensor \"", tensor.name, "\" of ", shard_name,
                                   ": expected the index to name it so, found ",
                                   found == map.end() ? "nothing" : found->second));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& path) {
  auto reader = std::unique_ptr<CheckpointReader>(new CheckpointReader(path));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    TALLY_RETURN_IF_ERROR(reader->OpenDirectory());
  } else {
    TALLY_RETURN_IF_ERROR(reader->AddShard(path));
  }
  reader->BuildNameIndex();
  return reader;
}

absl::Status CheckpointReader::OpenDirectory() {
  const std::string config = absl::StrCat(path_, "/config.json");
  if (Exists(config)) {
    TALLY_ASSIGN_OR_RETURN(config_json_, ReadFile(config));
    TALLY_RETURN_IF_ERROR(WithContext(ParseJsonObject(config_json_).status(), config));
  }
  const std::string single = absl::StrCat(path_, "/model.safetensors");
  const std::string index = absl::StrCat(path_, "/model.safetensors.index.json");
  if (Exists(single) && Exists(index)) {
    return NotAsExpected(path_, "expected either model.safetensors or "
                                "model.safetensors.index.json, found both");
  }
  if (Exists(index)) return OpenIndex(index);
  if (Exists(single)) return AddShard(single);
  return absl::NotFoundError(absl::StrCat(
      path_, ": expected model.safetensors or model.safetensors.index.json, found neither"));
}

absl::Status CheckpointReader::OpenIndex(const std::string& index_path) {
  TALLY_ASSIGN_OR_RETURN(const std::string text, ReadFile(index_path));
  const auto map = ParseWeightMap(text);
  if (!map.ok()) return WithContext(map.status(), index_path);
  std::set<std::string> shard_names;
  for (const auto& [tensor, shard] : *map) shard_names.insert(shard);
  for (const std::string& name : shard_names) {
    TALLY_RETURN_IF_ERROR(WithContext(AddShard(absl::StrCat(path_, "/", name)), index_path));
    TALLY_RETURN_IF_ERROR(CheckShard(index_path, *map, name, *shards_.back()));
  }
  return absl::OkStatus();
}

absl::Status CheckpointReader::AddShard(const std::string& shard_path) {
  TALLY_ASSIGN_OR_RETURN(auto shard, SafetensorsFile::Open(shard_path));
  for (const TensorInfo& tensor : shard->tensors()) {
    tensors_.push_back(tensor);
    shard_of_tensor_.push_back(shards_.size());
  }
  shards_.push_back(std::move(shard));
  return absl::OkStatus();
}

void CheckpointReader::BuildNameIndex() {
  for (size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
}

const TensorInfo* CheckpointReader::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const SafetensorsFile& CheckpointReader::ShardOf(const TensorInfo& tensor) const {
  return *shards_[shard_of_tensor_[index_.find(tensor.name)->second]];
}

absl::string_view CheckpointReader::Bytes(const TensorInfo& tensor) const {
  return ShardOf(tensor).Bytes(tensor);
}

absl::Status CheckpointReader::ReadAsFloat(const TensorInfo& tensor, absl::Span<float> out) const {
  return ShardOf(tensor).ReadAsFloat(tensor, out);
}

}  // namespace tally
