// A tensor's place in a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/dtype.h"

namespace tally {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // empty for a scalar
  // Bytes [begin, end) of the data section. Writers compute them; callers leave them alone.
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
  uint64_t elements() const { return bytes() / DTypeSize(dtype); }
};

// Product of the shape times the element size; OUT_OF_RANGE when it passes 2^63 - 1.
absl::StatusOr<uint64_t> TensorBytes(const TensorInfo& tensor);
// "F32 [64, 3, 3, 3]".
std::string DescribeType(const TensorInfo& tensor);

}  // namespace tally
