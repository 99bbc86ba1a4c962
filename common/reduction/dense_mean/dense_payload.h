// Whole numbers an element: the contribution and the aggregate of dense_mean alike.
//
//   payload := head values
//   head    := dtype:u8 zero:u8 x 7     1 = float32, 2 = bf16, 3 = fp16
//   values  := value x count            little-endian IEEE 754 (bf16: its upper half), all finite
//
// Example, count = 2, values 1.0 and -2.0, in float32 and in bf16:
//   01 00 00 00 00 00 00 00  00 00 80 3f  00 00 00 c0
//   02 00 00 00 00 00 00 00  80 3f  00 c0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "common/reduction/value_dtype.h"
#include "common/reduction/words.h"

namespace tally {

// 1 MiB of float32.
inline constexpr uint32_t kMaxDenseElements = 256u << 10;

inline size_t DensePayloadBytes(size_t count, ValueDtype dtype = ValueDtype::kFloat32) {
  return kHeadBytes + BytesOfValues(dtype, count);
}

// A payload read in place; valid as long as its bytes.
struct DenseView {
  size_t count = 0;
  const unsigned char* values = nullptr;  // of that type, at any alignment
  ValueDtype dtype = ValueDtype::kFloat32;

  // Of a payload in float32.
  float value(size_t i) const {
    float value;
    std::memcpy(&value, values + i * sizeof(float), sizeof(float));
    return value;
  }
};

// Looks at the head and the length only.
absl::StatusOr<DenseView> ParseDense(uint32_t count, ByteSpan payload);

// Also that it is of that type, and that all values are finite; names the first that is not.
absl::Status CheckDense(uint32_t count, ValueDtype dtype, ByteSpan payload);

// A value too large for the type becomes an infinity, which CheckDense refuses.
Bytes WriteDense(absl::Span<const float> values, ValueDtype dtype = ValueDtype::kFloat32);

}  // namespace tally
