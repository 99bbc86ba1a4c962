#include "common/checkpoint/dtype.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors elements are little-endian and are read in place");

struct DTypeRow {
  DType dtype;
  absl::string_view name;
  uint64_t size;
  bool floating;
};

// In the order of the enum.
constexpr DTypeRow kDTypes[] = {
    {DType::kF64, "F64", 8, true},         {DType::kF32, "F32", 4, true},
    {DType::kF16, "F16", 2, true},         {DType::kBF16, "BF16", 2, true},
    {DType::kF8E4M3, "F8_E4M3", 1, true},  {DType::kF8E5M2, "F8_E5M2", 1, true},
    {DType::kI64, "I64", 8, false},        {DType::kI32, "I32", 4, false},
    {DType::kI16, "I16", 2, false},        {DType::kI8, "I8", 1, false},
    {DType::kU64, "U64", 8, false},        {DType::kU32, "U32", 4, false},
    {DType::kU16, "U16", 2, false},        {DType::kU8, "U8", 1, false},
    {DType::kBool, "BOOL", 1, false},
};

const DTypeRow& RowOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

// Elements may lie unaligned in a file, so each is copied out before it is looked at.
template <typename Stored, typename Convert>
void ConvertEach(absl::string_view bytes, absl::Span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

}  // namespace

absl::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

uint64_t DTypeSize(DType dtype) { return RowOf(dtype).size; }

bool IsFloatingPoint(DType dtype) { return RowOf(dtype).floating; }

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | (fraction << 13));
  if (exponent == 0) {
    // A denormal is fraction * 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

absl::Status ConvertToFloat(DType dtype, absl::string_view bytes, absl::Span<float> out) {
  if (bytes.size() != out.size() * DTypeSize(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", out.size(), " elements of ", DTypeName(dtype), ", found ",
                     bytes.size(), " bytes"));
  }
  switch (dtype) {
    case DType::kF32:
      if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return absl::OkStatus();
    case DType::kF64:
      ConvertEach<double>(bytes, out, [](double value) { return static_cast<float>(value); });
      return absl::OkStatus();
    case DType::kF16:
      ConvertEach<uint16_t>(bytes, out, HalfToFloat);
      return absl::OkStatus();
    case DType::kBF16:
      ConvertEach<uint16_t>(bytes, out, BFloat16ToFloat);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("expected F64, F32, F16 or BF16 elements, found ", DTypeName(dtype)));
  }
}

}  // namespace tally
