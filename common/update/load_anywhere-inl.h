// Loading floats at any alignment: payloads lie where their record or frame has them.
// Included once a target, as Highway's -inl.h files are.

#if defined(TALLY_COMMON_UPDATE_LOAD_ANYWHERE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TALLY_COMMON_UPDATE_LOAD_ANYWHERE_INL_H_
#undef TALLY_COMMON_UPDATE_LOAD_ANYWHERE_INL_H_
#else
#define TALLY_COMMON_UPDATE_LOAD_ANYWHERE_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

// Highway's LoadU of a single lane reads through the pointer as it is.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> LoadAnywhere(D d, const float* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (hn::MaxLanes(D()) == 1) {
    float value;
    std::memcpy(&value, static_cast<const void*>(from), sizeof value);
    return hn::Set(d, value);
  } else {
    return hn::LoadU(d, from);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#endif  // TALLY_COMMON_UPDATE_LOAD_ANYWHERE_INL_H_
