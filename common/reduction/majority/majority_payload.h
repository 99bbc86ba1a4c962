// The aggregate of a majority vote: one bit an element, two with `ties: zero`.
//
//   aggregate := head signs [nonzero] [lane_mask]
//   head      := flags:u8 zero:u8 x 7     flags bit 0: lane mask follows; bit 1: nonzero plane;
//                                         byte 1 is 0, where a sign_mean has its voters
//   signs     := u64 x W                  W = ceil(count / 64); bit set: D = +1
//   nonzero   := u64 x W                  bit clear: D = 0, a tie; present only if there is a tie
//                                         and the round says ties give zero
//   lane_mask := u64 x ceil(W / 64)       bit clear: no worker voted in the lane; D = 0 in all of
//                                         it; present only if there is such a lane
//
// Words are little-endian, padding bits 0. In a lane without voters the words of both planes are
// 0; an element whose nonzero bit is 0 has sign bit 0.
//
// Example, count = 3, votes ++-, +--, ties give zero: sums +2, 0, -2:
//   02 00 00 00 00 00 00 00    flags: nonzero plane
//   01 00 00 00 00 00 00 00    element 0 plus
//   05 00 00 00 00 00 00 00    elements 0 and 2 are not ties
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/reduction/reduction.h"
#include "common/reduction/words.h"

namespace tally {

inline constexpr unsigned char kMajorityHasLaneMask = 1;
inline constexpr unsigned char kMajorityHasNonzero = 2;

constexpr size_t MajorityPayloadBytes(size_t count, bool has_nonzero, bool has_lane_mask) {
  const size_t lanes = LaneCount(count);
  return kHeadBytes +
         kWordBytes * (lanes * (has_nonzero ? 2 : 1) + (has_lane_mask ? MaskWords(lanes) : 0));
}

// A payload read in place; valid as long as its bytes.
struct MajorityView {
  size_t lanes = 0;
  const unsigned char* signs = nullptr;
  const unsigned char* nonzero = nullptr;    // null: no ties
  const unsigned char* lane_mask = nullptr;  // null: every lane had a voter

  bool voted(size_t lane) const { return lane_mask == nullptr || WordBit(lane_mask, lane); }
};

// Looks at the head and the length only: enough to read in bounds.
absl::StatusOr<MajorityView> ParseMajority(uint32_t count, ByteSpan payload);

// Everything the grammar says.
absl::Status CheckMajority(uint32_t count, ByteSpan payload);

}  // namespace tally
