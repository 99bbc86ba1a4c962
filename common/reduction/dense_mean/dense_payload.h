// Whole numbers an element: the contribution and the aggregate of dense_mean alike.
//
//   payload := head values
//   head    := dtype:u8 zero:u8 x 7     1 = float32 (2 and 3 are kept for bfloat16 and float16)
//   values  := f32 x count              little-endian IEEE 754, all finite
//
// Example, count = 2, values 1.0 and -2.0:
//   01 00 00 00 00 00 00 00  00 00 80 3f  00 00 00 c0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "common/reduction/words.h"

namespace tally {

inline constexpr unsigned char kDenseFloat32 = 1;

// 1 MiB of float32.
inline constexpr uint32_t kMaxDenseElements = 256u << 10;

constexpr size_t DensePayloadBytes(size_t count) { return kHeadBytes + count * sizeof(float); }

// A payload read in place; valid as long as its bytes.
struct DenseView {
  size_t count = 0;
  const unsigned char* values = nullptr;  // float32, at any alignment

  float value(size_t i) const {
    float value;
    std::memcpy(&value, values + i * sizeof(float), sizeof(float));
    return value;
  }
};

// Looks at the head and the length only.
absl::StatusOr<DenseView> ParseDense(uint32_t count, ByteSpan payload);

// Also that all values are finite; names the first that is not.
absl::Status CheckDense(uint32_t count, ByteSpan payload);

Bytes WriteDense(absl::Span<const float> values);

}  // namespace tally
