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

// What one round does to a lane: the signs, and which elements have one at all.
struct LaneVote {
  uint64_t signs = 0;
  uint64_t nonzero = ~uint64_t{0};
};

HWY_INLINE LaneVote VoteOf(const MajorityView& view, size_t lane) {
  if (!view.voted(lane)) return {0, 0};
  LaneVote vote;
  vote.signs = LoadWord(view.signs, lane);
  if (view.nonzero != nullptr) vote.nonzero = LoadWord(view.nonzero, lane);
  return vote;
}

// The lane's elements from `first` on by their signs alone.
HWY_INLINE hn::Vec<StepTag> StepBySigns(const StepCoefficients& step, const LaneVote& vote,
                                        size_t first, hn::Vec<StepTag> x) {
  const StepTag d;
  const auto down = hn::Set(d, step.minus_rate), up = hn::Set(d, -step.minus_rate);
  const auto addend = hn::IfThenElse(MaskOfBits(d, vote.signs, first), down, up);
  return FusedMultiplyAdd(d, x, hn::Set(d, step.decay), addend);
}

// The same where only those in `nonzero` have a sign.
HWY_INLINE hn::Vec<StepTag> StepBySignsAndZeros(const StepCoefficients& step, const LaneVote& vote,
                                                size_t first, hn::Vec<StepTag> x) {
  const StepTag d;
  const auto down = hn::Set(d, step.minus_rate), up = hn::Set(d, -step.minus_rate);
  const auto addend = hn::IfThenElse(MaskOfBits(d, vote.signs, first), down, up);
  const auto none = hn::Set(d, -0.0f);
  return FusedMultiplyAdd(d, x, hn::Set(d, step.decay),
                          hn::IfThenElse(MaskOfBits(d, vote.nonzero, first), addend, none));
}

// The rounds one after the other while the parameters are in registers: four vectors of a lane at a
// time, so that one's fused multiply-add need not wait for its neighbour's.
void StepMajorities(absl::Span<const MajorityStep> steps, size_t first, size_t lanes, float* x) {
  const StepTag d;
  const size_t n = hn::Lanes(d);
  for (size_t lane = first; lane < first + lanes; ++lane, x += kLaneElements) {
    for (size_t i = 0; i < kLaneElements; i += 4 * n) {
      auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + n);
      auto x2 = hn::LoadU(d, x + i + 2 * n), x3 = hn::LoadU(d, x + i + 3 * n);
      for (const MajorityStep& round : steps) {
        const LaneVote vote = VoteOf(round.view, lane);
        if (vote.nonzero == ~uint64_t{0}) {
          x0 = StepBySigns(round.step, vote, i, x0);
          x1 = StepBySigns(round.step, vote, i + n, x1);
          x2 = StepBySigns(round.step, vote, i + 2 * n, x2);
          x3 = StepBySigns(round.step, vote, i + 3 * n, x3);
        } else {
          x0 = StepBySignsAndZeros(round.step, vote, i, x0);
          x1 = StepBySignsAndZeros(round.step, vote, i + n, x1);
          x2 = StepBySignsAndZeros(round.step, vote, i + 2 * n, x2);
          x3 = StepBySignsAndZeros(round.step, vote, i + 3 * n, x3);
        }
      }
      hn::StoreU(x0, d, x + i);
      hn::StoreU(x1, d, x + i + n);
      hn::StoreU(x2, d, x + i + 2 * n);
      hn::StoreU(x3, d, x + i + 3 * n);
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

// A lane without voters.
HWY_INLINE void StepByDecay(const StepCoefficients& step, float* x) {
  const StepTag d;
  const auto decay = hn::Set(d, step.decay), none = hn::Set(d, -0.0f);
  for (size_t i = 0; i < kLaneElements; i += hn::Lanes(d)) StepVector(decay, none, x + i);
}

void StepSignMean(const SignMeanView& view, const StepCoefficients& step, size_t first,
                  size_t lanes, float* x) {
  uint64_t planes[kMaxPlanes];
  for (size_t i = 0; i < lanes; ++i, x += kLaneElements) {
    const size_t lane = first + i;
    const size_t voters = view.LaneVoters(lane);
    for (size_t k = 0; k < view.plane_count; ++k) planes[k] = view.word(k, lane);
    if (voters == 0) {
      StepByDecay(step, x);
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

HWY_EXPORT(StepMajorities);
HWY_EXPORT(StepSignMean);

// step_lanes(first lane, lanes, x) for the whole lanes in place and for the last one in a copy.
template <typename StepLanes>
void StepAll(absl::Span<float> x, size_t first_lane, const StepLanes& step_lanes) {
  const size_t whole = x.size() / kLaneElements;
  step_lanes(first_lane, whole, x.data());
  const absl::Span<float> tail = x.subspan(whole * kLaneElements);
  if (tail.empty()) return;
  float lane[kLaneElements] = {};
  std::copy(tail.begin(), tail.end(), lane);
  step_lanes(first_lane + whole, 1, lane);
  std::copy_n(lane, tail.size(), tail.begin());
}

}  // namespace

StepCoefficients StepCoefficientsOf(double learning_rate, double weight_decay) {
  return {static_cast<float>(1 - learning_rate * weight_decay),
          -static_cast<float>(learning_rate)};
}

void SignSteps(absl::Span<const MajorityStep> steps, absl::Span<float> x, size_t first_lane) {
  StepAll(x, first_lane, [&](size_t first, size_t lanes, float* lane) {
    HWY_DYNAMIC_DISPATCH(StepMajorities)(steps, first, lanes, lane);
  });
}

void SignStep(const MajorityView& view, const StepCoefficients& step, absl::Span<float> x,
              size_t first_lane) {
  SignSteps({MajorityStep{view, step}}, x, first_lane);
}

void SignStep(const SignMeanView& view, const StepCoefficients& step, absl::Span<float> x,
              size_t first_lane) {
  StepAll(x, first_lane, [&](size_t first, size_t lanes, float* lane) {
    HWY_DYNAMIC_DISPATCH(StepSignMean)(view, step, first, lanes, lane);
  });
}

}  // namespace tally
#endif  // HWY_ONCE
