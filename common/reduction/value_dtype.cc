#include "common/reduction/value_dtype.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

using Entry = std::pair<ValueDtype, absl::string_view>;
constexpr std::array<Entry, 4> kNames = {{{ValueDtype::kFloat32, "float32"},
                                          {ValueDtype::kBfloat16, "bf16"},
                                          {ValueDtype::kFloat16, "fp16"},
                                          {ValueDtype::kSign, "sign"}}};

}  // namespace

absl::StatusOr<ValueDtype> FindValueDtype(absl::string_view name) {
  if (name.empty()) return ValueDtype::kFloat32;
  for (const auto& [dtype, known] : kNames) {
    if (name == known) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype: expected one of float32, bf16, fp16, sign; found ", name));
}

absl::string_view ValueDtypeName(ValueDtype dtype) {
  for (const auto& [known, name] : kNames) {
    if (dtype == known) return name;
  }
  return "unknown";
}

size_t BytesOfValues(ValueDtype dtype, size_t n) {
  switch (dtype) {
    case ValueDtype::kFloat32:
      return 4 * n;
    case ValueDtype::kSign:
      return (n + 63) / 64 * 8;
    default:
      return 2 * n;
  }
}

}  // namespace tally
