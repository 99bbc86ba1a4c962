// Numbers of some elements of a chunk: contribution and aggregate of sparse_mean alike.
//
//   payload := head [set] values
//   head    := dtype:u8 form:u8 zero:u16 set_bytes:u32
//                dtype  1 = float32, 2 = bf16, 3 = fp16, 4 = sign (contributions alone)
//                form   0 = the elements of the round's mask, 1 = those of its own set
//   set     := the elements' index set (index_set.h), of form 1 alone; set_bytes is 0 otherwise
//   values  := value x n                   of n elements, ascending; little-endian IEEE 754, all finite
//            | scale:f32 zero:u32 word:u64 x ceil(n / 64)
//                                          signs: element i is scale, or -scale where its bit is set;
//                                          scale from 0 to bf16's largest number, padding bits 0
//
// Example, over a mask of two elements, 1.0 and -2.0 in float32, and as signs of the scale 1.5:
//   01 00 00 00 00 00 00 00  00 00 80 3f  00 00 00 c0
//   04 00 00 00 00 00 00 00  00 00 c0 3f  00 00 00 00  02 00 00 00 00 00 00 00
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/index_set/index_set.h"
#include "common/reduction/reduction.h"
#include "common/reduction/value_dtype.h"

namespace tally {

// As many elements as a chunk of it may have: with a mask far fewer values travel.
inline constexpr uint32_t kMaxSparseElements = 1u << 18;

// A payload read in place; valid as long as its bytes and the context's mask.
struct SparseView {
  ValueDtype dtype = ValueDtype::kFloat32;
  IndexSet own;                    // of form 1
  const IndexSet* mask = nullptr;  // of form 0
  const unsigned char* values = nullptr;  // of signs: the words
  float scale = 0;                        // of signs

  absl::Span<const uint32_t> indices() const {
    return mask != nullptr ? mask->indices : own.indices;
  }
  // Those of elements [first, first + values.size()) of indices(), in float32.
  void Decode(size_t first, absl::Span<float> values) const;
};

// Form 0 with a mask in the context, form 1 without. INVALID_ARGUMENT for another form, length or dtype
// than the context's; values are not looked at.
absl::StatusOr<SparseView> ParseSparse(const ChunkContext& context, ByteSpan payload);
// Also that all values are finite; names the first that is not.
absl::Status CheckSparse(const ChunkContext& context, ByteSpan payload);

// `values`: one for each of the context's mask, or of `own` if there is none. Signs are of their mean
// magnitude; a zero takes its bit of RandomWord(zero_key, i / 64).
Bytes WriteSparse(const ChunkContext& context, const IndexSet& own, absl::Span<const float> values,
                  uint64_t zero_key = 0);
// The same up to the values, of which there are n and whose place is returned.
unsigned char* BeginSparse(const ChunkContext& context, const IndexSet& own, size_t n, Bytes* payload);
size_t MaxSparseBytes(uint32_t count);

}  // namespace tally
