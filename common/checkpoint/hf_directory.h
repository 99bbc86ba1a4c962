// Models as Hugging Face directories: config.json and model.safetensors, or, for large models,
// model-00001-of-0000N.safetensors with model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/safetensors_writer.h"

namespace tally {

// A model on disk, whichever form it has. Immutable; safe to read from several threads.
class CheckpointReader {
 public:
  // `path` is a Hugging Face directory, or a single .safetensors file (config_json() is then
  // empty). Refused: neither or both of file and index, a shard that is missing, leaves the
  // directory or holds other tensors than the index says.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& path);

  // The text of config.json, checked to be a JSON object; empty if there is none.
  const std::string& config_json() const { return config_json_; }
  // Shard by shard, each in the order of its data section.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Null when absent.
  const TensorInfo* Find(absl::string_view name) const;
  // `tensor` is one of tensors(). Valid while this object lives.
  absl::string_view Bytes(const TensorInfo& tensor) const;
  // Any floating-point type as float32. INVALID_ARGUMENT with path and tensor otherwise.
  absl::Status ReadAsFloat(const TensorInfo& tensor, absl::Span<float> out) const;
  const std::string& path() const { return path_; }

 private:
  explicit CheckpointReader(std::string path) : path_(std::move(path)) {}
  absl::Status OpenDirectory();
  absl::Status OpenIndex(const std::string& index_path);
  absl::Status AddShard(const std::string& shard_path);
  const SafetensorsFile& ShardOf(const TensorInfo& tensor) const;
  void BuildNameIndex();

  std::string path_;
  std::string config_json_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> shard_of_tensor_;                   // parallel to tensors_
  absl::flat_hash_map<absl::string_view, size_t> index_;  // views of tensors_' names
};

struct HfWriterOptions {
  std::string config_json = {};                         // written as config.json unless empty
  std::map<std::string, std::string> extra_files = {};  // plain file names to contents
  SafetensorsMetadata metadata = {{"format", "pt"}};    // what transformers expects to find
  uint64_t max_shard_bytes = 5'000'000'000;             // of tensor data; a larger tensor is alone
  bool replace_existing = false;                        // else a non-empty target is refused
};

// Writes a directory that appears at `path` whole or not at all: made in a sibling, then renamed.
class HfDirectoryWriter {
 public:
  // ALREADY_EXISTS for a non-empty directory unless told to replace it.
  static absl::StatusOr<std::unique_ptr<HfDirectoryWriter>> Create(const std::string& path,
                                                                   std::vector<TensorInfo> tensors,
                                                                   HfWriterOptions options);
  ~HfDirectoryWriter();

  // The next bytes of all tensors in the order given, as for SafetensorsWriter.
  absl::Status Append(absl::string_view bytes);
  absl::Status Append(absl::Span<const float> values);
  absl::Status Finish();

 private:
  struct Shard {
    std::string file;
    std::vector<TensorInfo> tensors;
    uint64_t bytes = 0;
  };
  HfDirectoryWriter(std::string path, std::string temporary, HfWriterOptions options)
      : path_(std::move(path)), temporary_(std::move(temporary)), options_(std::move(options)) {}
  void PlanShards(std::vector<TensorInfo> tensors);
  absl::Status WriteSmallFiles();
  absl::Status NextShard();
  std::string IndexJson() const;

  std::string path_;
  std::string temporary_;  // empty once renamed
  HfWriterOptions options_;
  std::vector<Shard> shards_;
  size_t next_shard_ = 0;
  uint64_t left_in_shard_ = 0;
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace tally
