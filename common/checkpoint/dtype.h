// Element types of checkpoint tensors and their conversion to float32.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tally {

enum class DType { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI64, kI32, kI16, kI8, kU64, kU32,
                   kU16, kU8, kBool };

// The name in a safetensors header, "F32"; nullopt for one that the format does not know.
absl::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(absl::string_view name);
// Bytes of one element.
uint64_t DTypeSize(DType dtype);
bool IsFloatingPoint(DType dtype);

// IEEE 754 binary16 and bfloat16, exact for every value, denormals and NaN included.
float HalfToFloat(uint16_t half);
float BFloat16ToFloat(uint16_t bits);

// Little-endian elements to float32: F32 copied bit for bit, F16 and BF16 exactly, F64 rounded to
// nearest even. INVALID_ARGUMENT for other types. bytes.size() is out.size() times the size.
absl::Status ConvertToFloat(DType dtype, absl::string_view bytes, absl::Span<float> out);

}  // namespace tally
