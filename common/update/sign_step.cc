#include "common/update/sign_step.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/sign_step.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/cache_control.h"
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

constexpr size_t kHalfLane = kLaneElements / 2;

// Where the bit of element `first` + i of a half of a lane's word goes, to be the sign of float i.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<StepTag>> SignShifts(size_t first) {
  const hn::RebindToUnsigned<StepTag> du;
  return hn::Sub(hn::Set(du, static_cast<uint32_t>(31 - first)), hn::Iota(du, 0));
}

// 32 parameters by their signs alone, by some rounds one after the other: minus where the bit is
// set. Shifting the bits into the sign's place takes less than making masks of them.
template <size_t kRounds>
HWY_INLINE void StepBySigns(const StepCoefficients (&steps)[kRounds],
                            const unsigned char* const (&signs)[kRounds], size_t at, float* x) {
  const StepTag d;
  const hn::RebindToUnsigned<StepTag> du;
  for (size_t i = 0; i < kHalfLane; i += hn::Lanes(d)) {
    auto moved = hn::LoadU(d, x + i);
    for (size_t round = 0; round < kRounds; ++round) {
      uint32_t bits;
      std::memcpy(&bits, signs[round] + at, sizeof bits);
      const auto shifted = hn::BitCast(d, hn::Shl(hn::Set(du, bits), SignShifts(i)));
      const auto sign = hn::And(shifted, hn::Set(d, -0.0f));
      const auto addend = hn::Xor(hn::Set(d, -steps[round].minus_rate), sign);
      moved = FusedMultiplyAdd(d, moved, hn::Set(d, steps[round].decay), addend);
    }
    hn::StoreU(moved, d, x + i);
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

// How many rounds from the first on are plain, up to `most`: every lane has its voters, and no
// element is a tie.
HWY_INLINE size_t PlainRounds(absl::Span<const MajorityStep> rounds, size_t most) {
  size_t plain = 0;
  while (plain < rounds.size() && plain < most && rounds[plain].view.lane_mask == nullptr &&
         rounds[plain].view.nonzero == nullptr) {
    ++plain;
  }
  return plain;
}

// Plain rounds on some lanes.
template <size_t kRounds>
HWY_INLINE void StepPlain(const MajorityStep* rounds, size_t first, size_t lanes, float* x) {
  StepCoefficients steps[kRounds];  // copies: x may not be thought to hold them
  const unsigned char* signs[kRounds];
  for (size_t round = 0; round < kRounds; ++round) {
    steps[round] = rounds[round].step;
    signs[round] = rounds[round].view.signs + first * kWordBytes;
  }
  for (size_t half = 0; half < 2 * lanes; ++half) {
    StepBySigns<kRounds>(steps, signs, half * sizeof(uint32_t), x + half * kHalfLane);
  }
}

HWY_INLINE void StepWithZeros(MajorityView view, StepCoefficients step, size_t first, size_t lanes,
                              float* x) {
  for (size_t lane = first; lane < first + lanes; ++lane, x += kLaneElements) {
    uint64_t nonzero = view.voted(lane) ? ~uint64_t{0} : 0;
    if (view.nonzero != nullptr) nonzero &= LoadWord(view.nonzero, lane);
    StepBySignsAndZeros(step, LoadWord(view.signs, lane), nonzero, x);
  }
}

// The first of the rounds, or several if they are plain; returns how many.
HWY_INLINE size_t StepSome(absl::Span<const MajorityStep> rounds, size_t first, size_t lanes,
                           float* x) {
  constexpr size_t kAtOnce = 4;
  const size_t plain = PlainRounds(rounds, kAtOnce);
  if (plain == kAtOnce) {
    StepPlain<kAtOnce>(rounds.data(), first, lanes, x);
    return kAtOnce;
  }
  if (plain > 0) {
    StepPlain<1>(rounds.data(), first, lanes, x);
  } else {
    StepWithZeros(rounds.front().view, rounds.front().step, first, lanes, x);
  }
  return 1;
}

// Lanes that the rounds take turns on: two tiles and their votes fit the first cache.
constexpr size_t kTileLanes = 16;

// Asks for the lines of `size` bytes from `data` on.
HWY_INLINE void PrefetchBytes(const unsigned char* data, size_t size) {
  constexpr size_t kLineBytes = 64;
  for (size_t at = 0; at < size; at += kLineBytes) hwy::Prefetch(data + at);
}

// What the rounds need of the next lanes: of as many streams as there are rounds, each read a little
// at a time, the hardware would foresee none.
HWY_INLINE void PrefetchTile(absl::Span<const MajorityStep> steps, size_t first, size_t lanes,
                             const float* x) {
  if (steps.size() == 1) return;
  for (const MajorityStep& round : steps) {
    PrefetchBytes(round.view.signs + first * kWordBytes, lanes * kWordBytes);
  }
  PrefetchBytes(reinterpret_cast<const unsigned char*>(x), lanes * kLaneElements * sizeof(float));
}

void StepMajorities(absl::Span<const MajorityStep> steps, size_t first, size_t lanes, float* x) {
  for (size_t i = 0; i < lanes; i += kTileLanes) {
    const size_t count = std::min(kTileLanes, lanes - i);
    const size_t next = std::min(kTileLanes, lanes - i - count);
    PrefetchTile(steps, first + i + count, next, x + (i + count) * kLaneElements);
    for (size_t round = 0; round < steps.size();) {
      round += StepSome(steps.subspan(round), first + i, count, x + i * kLaneElements);
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
