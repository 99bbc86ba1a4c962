// The safetensors file format, shared by reader and writer.
//
//   file   := length(8, little-endian) header(length) data
//   header := JSON object, UTF-8, first byte '{', padded at its end with spaces
//   member := "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}
//           | "__metadata__": {"KEY": "VALUE", ...}         strings only
//   data   := the tensors' elements, little-endian, row-major, without gaps or overlap; offsets
//             count from its first byte and the last tensor ends the file
//
// Example, one tensor b = [1.0f]:
//   38 00 00 00 00 00 00 00  {"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}<2 spaces>
//   00 00 80 3f
//
// Limits of ours: a header of at most 100 MB (as in the reference reader), names not empty, without
// NUL, at least one tensor. Writers pad the header so that the data begins at a multiple of 8.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tensor_info.h"

namespace tally {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr uint64_t kSafetensorsMaxHeader = 100'000'000;
inline constexpr char kSafetensorsMetadataKey[] = "__metadata__";

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset
  SafetensorsMetadata metadata;
};

// Parses and checks the JSON of a header against a data section of `data_bytes`. INVALID_ARGUMENT
// with the tensor and the reason, without the path.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

// Sets begin and end of each tensor, in the order given. INVALID_ARGUMENT for no tensors, repeated
// or impossible names and sizes that overflow.
absl::Status PlaceTensors(std::vector<TensorInfo>& tensors);

// Length, JSON and padding for placed tensors, in that order; metadata first.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const std::vector<TensorInfo>& tensors,
                                                    const SafetensorsMetadata& metadata);

}  // namespace tally
