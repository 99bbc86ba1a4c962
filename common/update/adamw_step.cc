#include "common/update/adamw_step.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/adamw_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/fused_multiply_add-inl.h"
#include "common/update/load_anywhere-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void AdamWVector(D d, const AdamWCoefficients& k, const float* gradient, float* m_out,
                            float* v_out, float* x_out) {
  const auto g = LoadAnywhere(d, gradient);
  const auto m = hn::Add(hn::Mul(hn::Set(d, k.m_in_m), hn::LoadU(d, m_out)),
                         hn::Mul(hn::Set(d, k.g_in_m), g));
  const auto v = hn::Add(hn::Mul(hn::Set(d, k.v_in_v), hn::LoadU(d, v_out)),
                         hn::Mul(hn::Set(d, k.g_in_v), hn::Mul(g, g)));
  const auto scale =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, k.root)), hn::Set(d, k.epsilon));
  const auto addend = hn::Mul(hn::Set(d, k.minus_step), hn::Div(m, scale));
  const auto x = FusedMultiplyAdd(d, hn::LoadU(d, x_out), hn::Set(d, k.decay), addend);
  hn::StoreU(m, d, m_out);
  hn::StoreU(v, d, v_out);
  hn::StoreU(x, d, x_out);
}

void AdamWAll(const AdamWCoefficients& k, const float* gradient, size_t count, float* m, float* v,
              float* x) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    AdamWVector(d, k, gradient + i, m + i, v + i, x + i);
  }
  for (; i < count; ++i) {
    AdamWVector(hn::CappedTag<float, 1>(), k, gradient + i, m + i, v + i, x + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {

HWY_EXPORT(AdamWAll);

double Power(double base, uint64_t exponent) {
  double power = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) power *= base;
  }
  return power;
}

}  // namespace

AdamWCoefficients AdamWCoefficientsOf(const AdamWOptions& options) {
  const double first = 1 - Power(options.beta1, options.step);
  const double second = 1 - Power(options.beta2, options.step);
  AdamWCoefficients k;
  k.decay = static_cast<float>(1 - options.learning_rate * options.weight_decay);
  k.minus_step = -static_cast<float>(options.learning_rate / first);
  k.root = static_cast<float>(1 / std::sqrt(second));
  k.epsilon = static_cast<float>(options.epsilon);
  k.m_in_m = static_cast<float>(options.beta1);
  k.g_in_m = static_cast<float>(1 - options.beta1);
  k.v_in_v = static_cast<float>(options.beta2);
  k.g_in_v = static_cast<float>(1 - options.beta2);
  return k;
}

void AdamWStep(const DenseView& gradient, const AdamWCoefficients& k, absl::Span<float> m,
               absl::Span<float> v, absl::Span<float> x) {
  // The kernel loads at any alignment.
  const auto* g = reinterpret_cast<const float*>(gradient.values);
  HWY_DYNAMIC_DISPATCH(AdamWAll)(k, g, x.size(), m.data(), v.data(), x.data());
}

}  // namespace tally
#endif  // HWY_ONCE
