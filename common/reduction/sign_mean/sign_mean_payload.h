// The aggregate of a mean of signs: the count of plus votes, bit-sliced.
//
//   aggregate   := head planes [lane_voters]
//   head        := flags:u8 voters:u8 zero:u8 x 6    flags bit 0: lane_voters follows;
//                                                    voters N from 1 to 255
//   planes      := (u64 x W) x K                     W = ceil(count / 64), K = ceil(log2(N + 1));
//                                                    bit i of word w of plane k: bit k of the
//                                                    count c of plus votes for element 64w + i
//   lane_voters := u8 x W, zeros up to a multiple of 8    v, the voters of each lane; present only
//                                                    if some lane had other than N
//
// Words are little-endian, padding bits 0. c <= v <= N, v = N without lane_voters.
// The mean is D = (2c - v) / v, and 0 where v = 0.
//
// Example, count = 2, three voters ++, +-, +-: c = 3, 1:
//   00 03 00 00 00 00 00 00    three voters, so two planes
//   03 00 00 00 00 00 00 00    bit 0 of 3 and of 1
//   01 00 00 00 00 00 00 00    bit 1 of 3 and of 1
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "common/reduction/reduction.h"
#include "common/reduction/vote_kernels.h"
#include "common/reduction/words.h"

namespace tally {

inline constexpr unsigned char kSignMeanHasLaneVoters = 1;

constexpr size_t SignMeanPayloadBytes(size_t count, size_t voters, bool has_lane_voters) {
  const size_t lanes = LaneCount(count);
  const size_t lane_bytes = has_lane_voters ? (lanes + 7) / 8 * 8 : 0;
  return kHeadBytes + PlaneCount(voters) * lanes * kWordBytes + lane_bytes;
}

// A payload read in place; valid as long as its bytes.
struct SignMeanView {
  size_t lanes = 0;
  size_t voters = 0;
  size_t plane_count = 0;
  const unsigned char* planes = nullptr;       // plane k begins at word k * lanes
  const unsigned char* lane_voters = nullptr;  // null: `voters` in every lane

  size_t LaneVoters(size_t lane) const {
    return lane_voters != nullptr ? lane_voters[lane] : voters;
  }
  uint64_t word(size_t plane, size_t lane) const { return LoadWord(planes, plane * lanes + lane); }
};

// Looks at the head and the length only: enough to read in bounds.
absl::StatusOr<SignMeanView> ParseSignMean(uint32_t count, ByteSpan payload);

// Everything the grammar says.
absl::Status CheckSignMean(uint32_t count, ByteSpan payload);

}  // namespace tally
