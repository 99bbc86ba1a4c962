// a * b + c rounded once, on every instruction set: the fold's arithmetic may not depend on the
// machine. Included once a target, as Highway's -inl.h files are.

#if defined(TALLY_COMMON_UPDATE_FUSED_MULTIPLY_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TALLY_COMMON_UPDATE_FUSED_MULTIPLY_ADD_INL_H_
#undef TALLY_COMMON_UPDATE_FUSED_MULTIPLY_ADD_INL_H_
#else
#define TALLY_COMMON_UPDATE_FUSED_MULTIPLY_ADD_INL_H_
#endif

#include <cmath>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V FusedMultiplyAdd([[maybe_unused]] D d, V a, V b, V c) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  // Highway's MulAdd rounds twice here. std::fma does not, with or without the instruction.
  constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(D());
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (size_t i = 0; i < kLanes; ++i) x[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, x);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#endif  // TALLY_COMMON_UPDATE_FUSED_MULTIPLY_ADD_INL_H_
