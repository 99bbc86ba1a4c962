#include "common/update/outer_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/outer_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/fused_multiply_add-inl.h"
#include "common/update/load_anywhere-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `step` takes a tag, the rate, the momentum and where the delta, u and x begin.
template <class StepVector>
HWY_INLINE void ForAll(const OuterCoefficients& k, const float* delta, size_t count, float* u,
                       float* x, StepVector step) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) step(d, k, delta + i, u + i, x + i);
  for (; i < count; ++i) step(hn::CappedTag<float, 1>(), k, delta + i, u + i, x + i);
}

struct SgdVector {
  template <class D>
  HWY_INLINE void operator()(D d, const OuterCoefficients& k, const float* delta, float* /*u*/,
                             float* x) const {
    hn::StoreU(FusedMultiplyAdd(d, hn::Set(d, k.rate), LoadAnywhere(d, delta), hn::LoadU(d, x)), d,
               x);
  }
};

template <bool kNesterov>
struct MomentumVector {
  template <class D>
  HWY_INLINE void operator()(D d, const OuterCoefficients& k, const float* delta, float* u,
                             float* x) const {
    const auto momentum = hn::Set(d, k.momentum), mean = LoadAnywhere(d, delta);
    const auto moved = FusedMultiplyAdd(d, momentum, hn::LoadU(d, u), mean);
    const auto step = kNesterov ? FusedMultiplyAdd(d, momentum, moved, mean) : moved;
    hn::StoreU(moved, d, u);
    hn::StoreU(FusedMultiplyAdd(d, hn::Set(d, k.rate), step, hn::LoadU(d, x)), d, x);
  }
};

void SgdAll(const OuterCoefficients& k, const float* delta, size_t count, float* x) {
  // Without u; x stands in for it, so that there is something to count from.
  ForAll(k, delta, count, x, x, SgdVector());
}
void MomentumAll(const OuterCoefficients& k, const float* delta, size_t count, float* u,
                 float* x) {
  ForAll(k, delta, count, u, x, MomentumVector<false>());
}
void NesterovAll(const OuterCoefficients& k, const float* delta, size_t count, float* u,
                 float* x) {
  ForAll(k, delta, count, u, x, MomentumVector<true>());
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {
HWY_EXPORT(SgdAll);
HWY_EXPORT(MomentumAll);
HWY_EXPORT(NesterovAll);

// The kernels load at any alignment.
const float* ValuesOf(const DenseView& delta) {
  return reinterpret_cast<const float*>(delta.values);
}
}  // namespace

void OuterSgdStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> x) {
  HWY_DYNAMIC_DISPATCH(SgdAll)(k, ValuesOf(delta), x.size(), x.data());
}

void OuterMomentumStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> u,
                       absl::Span<float> x) {
  HWY_DYNAMIC_DISPATCH(MomentumAll)(k, ValuesOf(delta), x.size(), u.data(), x.data());
}

void OuterNesterovStep(const DenseView& delta, const OuterCoefficients& k, absl::Span<float> u,
                       absl::Span<float> x) {
  HWY_DYNAMIC_DISPATCH(NesterovAll)(k, ValuesOf(delta), x.size(), u.data(), x.data());
}

}  // namespace tally
#endif  // HWY_ONCE
