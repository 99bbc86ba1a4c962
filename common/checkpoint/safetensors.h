// Reading a safetensors file by mmap. The format: safetensors_header.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file.h"
#include "common/checkpoint/safetensors_header.h"

namespace tally {

// Immutable; safe to read from several threads. Pages come from the disk as they are touched.
class SafetensorsFile {
 public:
  // Whole and well-formed, or INVALID_ARGUMENT with path, tensor and reason.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  // In the order of the data section.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  // Null when absent.
  const TensorInfo* Find(absl::string_view name) const;
  // The tensor's elements as they lie in the file: row-major, little-endian, perhaps unaligned.
  // Valid while this object lives; `tensor` is one of tensors().
  absl::string_view Bytes(const TensorInfo& tensor) const;
  // All tensors, one behind the other.
  absl::string_view data() const { return data_; }
  const std::string& path() const { return path_; }

  // out.size() must be the tensor's elements. INVALID_ARGUMENT for integer types.
  absl::Status ReadAsFloat(const TensorInfo& tensor, absl::Span<float> out) const;

 private:
  SafetensorsFile(std::string path, std::unique_ptr<MappedFile> file, SafetensorsHeader header,
                  absl::string_view data);

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  SafetensorsHeader header_;
  absl::string_view data_;
  absl::flat_hash_map<absl::string_view, size_t> index_;  // views of header_.tensors' names
};

}  // namespace tally
