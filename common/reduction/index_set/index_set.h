// Sets of a chunk's elements, as masks and sparse payloads carry them: each run of 65536 elements in
// the smallest of five forms by computed size, since real masks are dense in some tensors and empty in
// others.
//
//   set     := segment x ceil(count / 65536)
//   segment := kind:u8 parameter:u8 size:u16 body      of n elements, m of them in the set
//   kind 0   none         m = 0: size and parameter 0, no body
//        1   all          m = n: size m - 1, no body
//        2   bitmap       1 bit an element; parameter 0
//        3   Elias-Fano   parameter l: the low l bits of each index; then, for each value of the high
//                         bits from 0 to (n - 1) >> l, a 1 for each index that has it and a 0
//        4   Rice         parameter k, of each index's gap to the one before (index - before - 1,
//                         before the first -1): gap >> k zeros, a 1, the low k bits
//   size is m - 1 but for kind 0. Bits from the lowest of each byte on, the last byte filled up with
//   zeros. Of forms of one size the lowest kind, then the lowest parameter: one set has one encoding.
//   (Elias 1974, Fano 1971; Rice 1979.)
//
// Example, count = 100, the set {3, 64}: Elias-Fano, l = 5: low bits 3 and 0, high ones 0 and 2
//   03 05 01 00  03 24
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tally {

// Elements of one chunk.
struct IndexSet {
  uint32_t count = 0;             // elements of the chunk
  std::vector<uint32_t> indices;  // ascending, each below count
  bool operator==(const IndexSet&) const = default;
};

std::vector<unsigned char> EncodeIndexSet(const IndexSet& set);
// INVALID_ARGUMENT, with what and where, for anything but an encoding of EncodeIndexSet.
absl::StatusOr<IndexSet> DecodeIndexSet(uint32_t count, absl::Span<const unsigned char> bytes);
// Of any set of a chunk of so many elements.
size_t MaxIndexSetBytes(uint32_t count);

}  // namespace tally
