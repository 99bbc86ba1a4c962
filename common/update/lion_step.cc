#include "common/update/lion_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/lion_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/fused_multiply_add-inl.h"
#include "common/update/load_anywhere-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void LionStepVector(D d, const LionCoefficients& k, const float* gradient, float* m_out,
                               float* x_out) {
  const auto g = LoadAnywhere(d, gradient), m = hn::LoadU(d, m_out), zero = hn::Zero(d);
  const auto c = hn::Add(hn::Mul(hn::Set(d, k.momentum_in_c), m),
                         hn::Mul(hn::Set(d, k.gradient_in_c), g));
  auto addend = hn::Set(d, -0.0f);
  addend = hn::IfThenElse(hn::Gt(c, zero), hn::Set(d, k.step.minus_rate), addend);
  addend = hn::IfThenElse(hn::Lt(c, zero), hn::Set(d, -k.step.minus_rate), addend);
  const auto x = FusedMultiplyAdd(d, hn::LoadU(d, x_out), hn::Set(d, k.step.decay), addend);
  hn::StoreU(x, d, x_out);
  hn::StoreU(hn::Add(hn::Mul(hn::Set(d, k.momentum_in_m), m),
                     hn::Mul(hn::Set(d, k.gradient_in_m), g)),
             d, m_out);
}

void LionStepAll(const LionCoefficients& k, const float* gradient, size_t count, float* m,
                 float* x) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    LionStepVector(d, k, gradient + i, m + i, x + i);
  }
  for (; i < count; ++i) {
    LionStepVector(hn::CappedTag<float, 1>(), k, gradient + i, m + i, x + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {
HWY_EXPORT(LionStepAll);
}  // namespace

LionCoefficients LionCoefficientsOf(double learning_rate, double weight_decay, double beta1,
                                    double beta2) {
  return {StepCoefficientsOf(learning_rate, weight_decay), static_cast<float>(beta1),
          static_cast<float>(1 - beta1), static_cast<float>(beta2), static_cast<float>(1 - beta2)};
}

void LionStep(const DenseView& gradient, const LionCoefficients& k, absl::Span<float> m,
              absl::Span<float> x) {
  // The kernel loads at any alignment.
  const auto* g = reinterpret_cast<const float*>(gradient.values);
  HWY_DYNAMIC_DISPATCH(LionStepAll)(k, g, x.size(), m.data(), x.data());
}

}  // namespace tally
#endif  // HWY_ONCE
