// Between a vector's mask and the bits of a lane's word. A vector holds 1 to 64 floats.
// Included once a target, as Highway's -inl.h files are.

#if defined(TALLY_COMMON_UPDATE_LANE_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TALLY_COMMON_UPDATE_LANE_BITS_INL_H_
#undef TALLY_COMMON_UPDATE_LANE_BITS_INL_H_
#else
#define TALLY_COMMON_UPDATE_LANE_BITS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

// The unsigned integer as wide as the mask's bytes: a load of another width than the store before
// it would wait for the store.
template <class D>
using LaneBitsOf = std::conditional_t<hwy::HWY_NAMESPACE::MaxLanes(D()) == 16, uint16_t, uint8_t>;

template <class D>
HWY_INLINE uint64_t BitsOfMask(D d, hwy::HWY_NAMESPACE::Mask<D> mask) {
  static_assert(hwy::HWY_NAMESPACE::MaxLanes(D()) <= 16, "wider vectors need wider bits");
  LaneBitsOf<D> bits = 0;
  hwy::HWY_NAMESPACE::StoreMaskBits(d, mask, reinterpret_cast<uint8_t*>(&bits));
  return bits;
}

// The mask of the word's bits from `first` on.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Mask<D> MaskOfBits(D d, uint64_t word, size_t first) {
  const auto bits = static_cast<LaneBitsOf<D>>(word >> first);
  uint8_t bytes[8] = {};  // LoadMaskBits may read that many
  std::memcpy(bytes, &bits, sizeof(bits));
  return hwy::HWY_NAMESPACE::LoadMaskBits(d, bytes);
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#endif  // TALLY_COMMON_UPDATE_LANE_BITS_INL_H_
