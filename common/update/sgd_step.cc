#include "common/update/sgd_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/sgd_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/fused_multiply_add-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void SgdStepVector(D d, const SgdCoefficients& k, const float* gradient, float* m_out,
                              float* x_out) {
  const auto x = hn::LoadU(d, x_out);
  const auto decayed = FusedMultiplyAdd(d, hn::Set(d, k.decay), x, hn::LoadU(d, gradient));
  const auto m = FusedMultiplyAdd(d, hn::Set(d, k.momentum), hn::LoadU(d, m_out), decayed);
  hn::StoreU(m, d, m_out);
  hn::StoreU(FusedMultiplyAdd(d, hn::Set(d, -k.rate), m, x), d, x_out);
}

void SgdStepAll(const SgdCoefficients& k, const float* gradient, size_t count, float* m,
                float* x) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    SgdStepVector(d, k, gradient + i, m + i, x + i);
  }
  for (; i < count; ++i) {
    SgdStepVector(hn::CappedTag<float, 1>(), k, gradient + i, m + i, x + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {
HWY_EXPORT(SgdStepAll);
}  // namespace

void SgdStep(absl::Span<const float> gradient, const SgdCoefficients& k, absl::Span<float> m,
             absl::Span<float> x) {
  HWY_DYNAMIC_DISPATCH(SgdStepAll)(k, gradient.data(), x.size(), m.data(), x.data());
}

}  // namespace tally
#endif  // HWY_ONCE
