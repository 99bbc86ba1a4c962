// Writing safetensors files that are whole or absent: a temporary beside the target, fsync, rename,
// fsync of the folder. An object destroyed without Finish() leaves nothing behind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/file.h"
#include "common/checkpoint/pending_file.h"
#include "common/checkpoint/safetensors_header.h"

namespace tally {

// The data section in the order of the tensors given, contiguous, streamed.
class SafetensorsWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, std::vector<TensorInfo> tensors,
      const SafetensorsMetadata& metadata = {});

  // The next bytes of the data section; pieces need not follow tensor bounds. OUT_OF_RANGE past
  // its end.
  absl::Status Append(absl::string_view bytes);
  absl::Status Append(absl::Span<const float> values);
  // FAILED_PRECONDITION unless every byte was appended.
  absl::Status Finish();

 private:
  SafetensorsWriter(PendingFile file, uint64_t data_bytes)
      : file_(std::move(file)), left_(data_bytes) {}

  PendingFile file_;
  uint64_t left_;  // bytes of the data section still to come
};

// A file of float32 tensors at its full size from the start, its data section open for writing as
// one flat buffer in the order of the tensors. A full disk shows in Create().
class FlatSafetensorsWriter {
 public:
  // INVALID_ARGUMENT if a tensor is not float32. The buffer starts as zeros.
  static absl::StatusOr<std::unique_ptr<FlatSafetensorsWriter>> Create(
      const std::string& path, std::vector<TensorInfo> tensors,
      const SafetensorsMetadata& metadata = {});

  // Empty after Finish().
  absl::Span<float> data() { return data_; }
  absl::Status Finish();

 private:
  FlatSafetensorsWriter(PendingFile file, std::unique_ptr<MappedFile> mapping,
                        absl::Span<float> data)
      : file_(std::move(file)), mapping_(std::move(mapping)), data_(data) {}

  PendingFile file_;
  std::unique_ptr<MappedFile> mapping_;
  absl::Span<float> data_;
};

}  // namespace tally
