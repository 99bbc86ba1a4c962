// How the values of a payload travel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tally {

enum class ValueDtype : uint8_t { kFloat32 = 1, kBfloat16 = 2, kFloat16 = 3, kSign = 4 };

// float32, bf16, fp16, sign. An empty name is float32. INVALID_ARGUMENT lists the names there are.
absl::StatusOr<ValueDtype> FindValueDtype(absl::string_view name);
absl::string_view ValueDtypeName(ValueDtype dtype);

// Bytes of n values; of signs 1 bit each in whole 64-bit words.
size_t BytesOfValues(ValueDtype dtype, size_t n);

}  // namespace tally
