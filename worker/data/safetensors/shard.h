#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/safetensors.h"
#include "worker/data/example.h"

namespace tally {

// A shard of examples: a safetensors file with
//   images (or inputs)   [rows, ...]  U8 or F32; [rows, h, w] means one channel
//   labels               [rows]       I64, I32 or U8, from 0
// Other tensors are ignored. Mapped; immutable.
class Shard {
 public:
  // INVALID_ARGUMENT with the path and what is wrong; every label is looked at.
  static absl::StatusOr<Shard> Open(const std::string& path);

  uint64_t rows() const { return rows_; }
  const ExampleFormat& format() const { return format_; }
  uint32_t classes() const { return classes_; }
  const std::string& path() const { return file_->path(); }
  // row < rows(). `elements` has format().bytes().
  void Read(uint64_t row, char* elements, uint32_t* label) const;

 private:
  Shard() = default;
  absl::Status FindTensors();
  absl::Status CheckLabels();
  int64_t LabelAt(uint64_t row) const;

  std::unique_ptr<SafetensorsFile> file_;
  absl::string_view images_;
  absl::string_view labels_;
  DType label_type_ = DType::kI64;
  ExampleFormat format_;
  uint64_t rows_ = 0;
  uint32_t classes_ = 0;
};

}  // namespace tally
