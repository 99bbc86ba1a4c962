#include "common/checkpoint/tensor_info.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tally {

absl::StatusOr<uint64_t> TensorBytes(const TensorInfo& tensor) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t bytes = DTypeSize(tensor.dtype);
  for (const uint64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMost) {
      return absl::OutOfRangeError(
          absl::StrCat("expected at most 2^63 - 1 bytes, found ", DescribeType(tensor)));
    }
  }
  return bytes;
}

std::string DescribeType(const TensorInfo& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype), " [", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace tally
