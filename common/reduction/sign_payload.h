// The contribution of a vote: one bit an element. Shared by all reductions of signs.
//
//   contribution := head signs [lane_mask]
//   head         := flags:u8 zero:u8 x 7         flags bit 0: a lane mask follows the signs
//   signs        := u64 x W                      W = ceil(count / 64), little-endian;
//                                                bit i of word w: element 64w + i votes plus
//   lane_mask    := u64 x ceil(W / 64)           bit w: lane w votes; 0: it is silent
//
// Padding bits are 0. A silent lane's word is 0. A mask in which no lane is silent is left out,
// so that each vote has one encoding.
//
// Example, count = 130: element 0 and 129 plus, lane 1 (elements 64 to 127) silent, W = 3:
//   01 00 00 00 00 00 00 00    flags: lane mask
//   01 00 00 00 00 00 00 00    lane 0
//   00 00 00 00 00 00 00 00    lane 1, silent
//   02 00 00 00 00 00 00 00    lane 2: elements 128 (minus) and 129 (plus)
//   05 00 00 00 00 00 00 00    lanes 0 and 2 vote
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "common/reduction/words.h"

namespace tally {

inline constexpr unsigned char kSignHasLaneMask = 1;

// 1 MiB of signs.
inline constexpr uint32_t kMaxSignElements = 8u << 20;

constexpr size_t SignPayloadBytes(size_t count, bool has_lane_mask) {
  const size_t lanes = LaneCount(count);
  return kHeadBytes + kWordBytes * (lanes + (has_lane_mask ? MaskWords(lanes) : 0));
}

// A payload read in place; valid as long as its bytes.
struct SignView {
  size_t lanes = 0;
  const unsigned char* signs = nullptr;      // words of `lanes` lanes
  const unsigned char* lane_mask = nullptr;  // null: every lane votes

  bool votes(size_t lane) const { return lane_mask == nullptr || WordBit(lane_mask, lane); }
  // Lanes [first, first + size); first is a multiple of 64.
  SignView Slice(size_t first, size_t size) const;
};

// Looks at the head and the length only: enough to read in bounds.
absl::StatusOr<SignView> ParseSignPayload(uint32_t count, ByteSpan payload);

// Everything the grammar says.
absl::Status CheckSignPayload(uint32_t count, ByteSpan payload);

// Writes the signs' payload for words that already obey the grammar; `lane_mask` is empty or
// holds MaskWords(signs.size()) words and is left out if no lane is silent.
Bytes WriteSignPayload(absl::Span<const uint64_t> signs, absl::Span<const uint64_t> lane_mask);

// The signs of `values` (at least one): plus if > 0, minus if < 0; the bit of
// RandomWord(zero_key, first_lane + lane) for a zero, unless all of the lane is zero: then silent.
Bytes PackSigns(absl::Span<const float> values, uint64_t first_lane, uint64_t zero_key);

}  // namespace tally
