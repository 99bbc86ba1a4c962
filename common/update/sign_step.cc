#include "common/update/sign_step.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/sign_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/fused_multiply_add-inl.h"
#include "common/update/lane_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using StepTag = hn::CappedTag<float, 16>;

HWY_INLINE void StepVector(hn::Vec<StepTag> decay, hn::Vec<StepTag> addend, float* x) {
  const StepTag d;
  hn::StoreU(FusedMultiplyAdd(d, hn::LoadU(d, x), decay, addend), d, x);
}

// 64 parameters by their signs alone.
HWY_INLINE void StepBySigns(const StepCoefficients& step, uint64_t signs, float* x) {
  const StepTag d;
  const auto decay = hn::Set(d, step.decay);
  const auto down = hn::Set(d, step.minus_rate), up = hn::Set(d, -step.minus_rate);
  for (size_t i = 0; i < kLaneElements; i += hn::Lanes(d)) {
    StepVector(decay, hn::IfThenElse(MaskOfBits(d, signs, i), down, up), x + i);
  }
}

// 64 parameters of which only those in `nonzero` have a sign.
HWY_INLINE void StepBySignsAndZeros(const StepCoefficients& step, uint64_t signs, uint64_t nonzero,
                                    float* x) {
  const StepTag d;
  const auto decay = hn::Set(d, step.decay), none = hn::Set(d, -0.0f);
  const auto down = hn::Set(d, step.minus_rate), up = hn::Set(d, -step.minus_rate);
  for (size_t i = 0; i < kLaneElements; i += hn::Lanes(d)) {
    const auto addend = hn::IfThenElse(MaskOfBits(d, signs, i), down, up);
    StepVector(decay, hn::IfThenElse(MaskOfBits(d, nonzero, i), addend, none), x + i);
  }
}

void StepMajority(const MajorityView& view, const StepCoefficients& step, size_t first,
                  size_t lanes, float* x) {
  for (size_t i = 0; i < lanes; ++i, x += kLaneElements) {
    const size_t lane = first + i;
    const uint64_t signs = LoadWord(view.signs, lane);
    if (view.lane_mask == nullptr && view.nonzero == nullptr) {
      StepBySigns(step, signs, x);
    } else if (!view.voted(lane)) {
      StepBySignsAndZeros(step, 0, 0, x);
    } else if (view.nonzero != nullptr) {
      StepBySignsAndZeros(step, signs, LoadWord(view.nonzero, lane), x);
    } else {
      StepBySigns(step, signs, x);
    }
  }
}

// The plus votes of the elements from `first` on of the lane.
HWY_INLINE hn::Vec<StepTag> PlusVotes(const uint64_t* planes, size_t plane_count, size_t first) {
  const StepTag d;
  auto plus = hn::Zero(d);
  for (size_t k = 0; k < plane_count; ++k) {
    const auto bit = hn::Set(d, static_cast<float>(1 << k));
    plus = hn::Add(plus, hn::IfThenElseZero(MaskOfBits(d, planes[k], first), bit));
  }
  return plus;
}

HWY_INLINE void StepByCounts(const StepCoefficients& step, const uint64_t* planes,
                             size_t plane_count, size_t lane_voters, float* x) {
  const StepTag d;
  const auto decay = hn::Set(d, step.decay), minus_rate = hn::Set(d, step.minus_rate);
  const auto voters = hn::Set(d, static_cast<float>(lane_voters));
  for (size_t i = 0; i < kLaneElements; i += hn::Lanes(d)) {
    const auto plus = PlusVotes(planes, plane_count, i);
    const auto mean = hn::Div(hn::Sub(hn::Add(plus, plus), voters), voters);
    StepVector(decay, hn::Mul(minus_rate, mean), x + i);
  }
}

void StepSignMean(const SignMeanView& view, const StepCoefficients& step, size_t first,
                  size_t lanes, float* x) {
  uint64_t planes[kMaxPlanes];
  for (size_t i = 0; i < lanes; ++i, x += kLaneElements) {
    const size_t lane = first + i;
    const size_t voters = view.LaneVoters(lane);
    for (size_t k = 0; k < view.plane_count; ++k) planes[k] = view.word(k, lane);
    if (voters == 0) {
      StepBySignsAndZeros(step, 0, 0, x);
    } else {
      StepByCounts(step, planes, view.plane_count, voters, x);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {

HWY_EXPORT(StepMajority);
HWY_EXPORT(StepSignMean);

// step_lanes(first lane, lanes, x) for the whole lanes in place and for the last one in a copy.
template <typename StepLanes>
void StepAll(absl::Span<float> x, const StepLanes& step_lanes) {
  const size_t whole = x.size() / kLaneElements;
  step_lanes(0, whole, x.data());
  const absl::Span<float> tail = x.subspan(whole * kLaneElements);
  if (tail.empty()) return;
  float lane[kLaneElements] = {};
  std::copy(tail.begin(), tail.end(), lane);
  step_lanes(whole, 1, lane);
  std::copy_n(lane, tail.size(), tail.begin());
}

}  // namespace

StepCoefficients StepCoefficientsOf(double learning_rate, double weight_decay) {
  return {static_cast<float>(1 - learning_rate * weight_decay),
          -static_cast<float>(learning_rate)};
}

void SignStep(const MajorityView& view, const StepCoefficients& step, absl::Span<float> x) {
  StepAll(x, [&](size_t first, size_t lanes, float* lane) {
    HWY_DYNAMIC_DISPATCH(StepMajority)(view, step, first, lanes, lane);
  });
}

void SignStep(const SignMeanView& view, const StepCoefficients& step, absl::Span<float> x) {
  StepAll(x, [&](size_t first, size_t lanes, float* lane) {
    HWY_DYNAMIC_DISPATCH(StepSignMean)(view, step, first, lanes, lane);
  });
}

}  // namespace tally
#endif  // HWY_ONCE
