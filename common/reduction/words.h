// Lanes and words: 64 consecutive elements of a chunk are one lane, and one bit of each is one
// little-endian u64 word. Payloads arrive at any alignment, so words are copied, never cast.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tally {

static_assert(std::endian::native == std::endian::little,
              "payload words are read in place, which needs a little-endian machine");

inline constexpr size_t kLaneElements = 64;
inline constexpr size_t kWordBytes = 8;
inline constexpr size_t kHeadBytes = 8;

// W: lanes of a chunk of `count` elements, and words of one bit plane.
constexpr size_t LaneCount(size_t count) { return (count + kLaneElements - 1) / kLaneElements; }
// Words of a mask with one bit a lane.
constexpr size_t MaskWords(size_t lanes) { return LaneCount(lanes); }

// The bits of the last word that stand for elements when `bits` bits fill words from the first on.
constexpr uint64_t LastWordBits(size_t bits) {
  return bits % 64 == 0 ? ~uint64_t{0} : (uint64_t{1} << (bits % 64)) - 1;
}

inline uint64_t LoadWord(const unsigned char* plane, size_t word) {
  uint64_t value;
  std::memcpy(&value, plane + word * kWordBytes, kWordBytes);
  return value;
}

inline void StoreWord(unsigned char* plane, size_t word, uint64_t value) {
  std::memcpy(plane + word * kWordBytes, &value, kWordBytes);
}

inline bool WordBit(const unsigned char* plane, size_t bit) {
  return (LoadWord(plane, bit / 64) >> (bit % 64)) & 1;
}

}  // namespace tally
