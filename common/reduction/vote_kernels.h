// Bit-sliced counting: the plus votes of 64 elements are summed by the boolean operations of
// adders on whole words, so that one instruction adds a vote for as many elements as a vector has
// bits. Plane k holds bit k of every element's count.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace tally {

inline constexpr size_t kMaxVoters = 255;
inline constexpr size_t kMaxPlanes = 8;

// Votes are counted in blocks of this many words: 8 planes of one fit well into the second cache,
// and a voter's 16 KiB in a row are enough for memory to stream them.
inline constexpr size_t kBlockWords = 2048;

// K = ceil(log2(voters + 1)).
constexpr size_t PlaneCount(size_t voters) { return std::bit_width(voters); }

// Adds one vote a voter to the planes, plane k at planes[k * stride]. `voters` point to `words`
// words each, at any alignment. `voters_before` votes are in the planes already; with 0 they need
// not be initialised. At most kMaxVoters in all. Takes PlaneCount(all voters) planes.
void AddVotes(absl::Span<const unsigned char* const> voters, size_t words, size_t voters_before,
              uint64_t* planes, size_t stride);

struct TieRule {
  uint64_t key = 0;
  uint64_t first_lane = 0;  // of the planes' first word in the tie stream
};

// signs: bit set where more than half of `voters` voted plus; in a tie, where the tie stream says
// so if `nonzero` is null. Otherwise ties get sign 0 and nonzero 0, all else nonzero 1.
// Both take `words` words at any alignment.
void DecideMajority(const uint64_t* planes, size_t stride, size_t words, size_t voters,
                    const TieRule& rule, unsigned char* signs, unsigned char* nonzero);

// AddVotes from nothing and DecideMajority with random ties in one pass: the last voters' counts
// stay in registers. At least 1 voter and at most kMaxVoters.
void VoteMajority(absl::Span<const unsigned char* const> voters, size_t words, const TieRule& rule,
                  unsigned char* signs);

// The sets of elements, of one lane, above and at half of the lane's voters.
struct LaneMajority {
  uint64_t above = 0;
  uint64_t tied = 0;
};
LaneMajority CompareLane(const uint64_t* planes, size_t stride, size_t plane_count, size_t lane,
                         size_t lane_voters);

}  // namespace tally
