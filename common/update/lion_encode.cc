#include "common/update/lion_encode.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/sign_payload.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/update/lion_encode.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "common/update/lane_bits-inl.h"

#ifndef TALLY_COMMON_UPDATE_LION_ENCODE_TYPES_
#define TALLY_COMMON_UPDATE_LION_ENCODE_TYPES_
namespace tally {

struct LionEncodeCoefficients {
  float momentum_in_c, gradient_in_c, momentum_in_m, gradient_in_m;
};

// One lane's c: which elements are above and which at zero.
struct LionLane {
  uint64_t plus = 0;
  uint64_t zero = 0;
  bool all_finite = true;
};

}  // namespace tally
#endif  // TALLY_COMMON_UPDATE_LION_ENCODE_TYPES_

HWY_BEFORE_NAMESPACE();
namespace tally {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 64 gradients and momenta.
HWY_INLINE LionLane EncodeOneLane(const LionEncodeCoefficients& k, const float* gradient,
                                  float* momentum) {
  const hn::CappedTag<float, 16> d;
  const auto zero = hn::Zero(d);
  const auto c_m = hn::Set(d, k.momentum_in_c), c_g = hn::Set(d, k.gradient_in_c);
  const auto m_m = hn::Set(d, k.momentum_in_m), m_g = hn::Set(d, k.gradient_in_m);
  LionLane lane;
  auto all_finite = hn::Eq(zero, zero);
  for (size_t i = 0; i < kLaneElements; i += hn::Lanes(d)) {
    auto g = hn::LoadU(d, gradient + i);
    const auto finite = hn::Eq(hn::Sub(g, g), zero);  // NaN - NaN and Inf - Inf are NaN
    all_finite = hn::And(all_finite, finite);
    g = hn::IfThenElseZero(finite, g);
    const auto m = hn::LoadU(d, momentum + i);
    const auto c = hn::Add(hn::Mul(c_m, m), hn::Mul(c_g, g));
    hn::StoreU(hn::Add(hn::Mul(m_m, m), hn::Mul(m_g, g)), d, momentum + i);
    lane.plus |= BitsOfMask(d, hn::Gt(c, zero)) << i;
    lane.zero |= BitsOfMask(d, hn::Eq(c, zero)) << i;
  }
  lane.all_finite = hn::AllTrue(d, all_finite);
  return lane;
}

void EncodeLanes(const LionEncodeCoefficients& k, const float* gradient, float* momentum,
                 size_t lanes, LionLane* out) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    out[lane] = EncodeOneLane(k, gradient + lane * kLaneElements, momentum + lane * kLaneElements);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tally
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tally {
namespace {

HWY_EXPORT(EncodeLanes);

LionEncodeCoefficients CoefficientsOf(const LionEncodeOptions& options) {
  return {static_cast<float>(options.beta1), static_cast<float>(1 - options.beta1),
          static_cast<float>(options.beta2), static_cast<float>(1 - options.beta2)};
}

absl::Status CheckBeta(absl::string_view name, double beta) {
  if (beta >= 0 && beta < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("lion_encode: ", name, ": expected a number in [0, 1), found ", beta));
}

absl::Status CheckSizes(size_t gradient, size_t momentum, size_t out) {
  if (gradient == 0 || gradient != momentum) {
    return absl::InvalidArgumentError(
        absl::StrCat("lion_encode: expected as many gradients as momenta, at least one, found ",
                     gradient, " and ", momentum));
  }
  const size_t needed = SignPayloadBytes(gradient, true);
  if (out >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("lion_encode: expected ", needed, " bytes for the payload, found ", out));
}

uint64_t CountNonfinite(absl::Span<const float> gradient) {
  return std::count_if(gradient.begin(), gradient.end(), [](float g) { return !std::isfinite(g); });
}

// Writes the payload lane by lane.
class LionEncoder {
 public:
  LionEncoder(const LionEncodeOptions& options, size_t count, unsigned char* out)
      : options_(options),
        lanes_(LaneCount(count)),
        head_(out),
        signs_(out + kHeadBytes),
        mask_(signs_ + lanes_ * kWordBytes) {
    std::fill_n(head_, kHeadBytes, 0);
  }

  // The next lane; `gradient` are its elements, fewer than 64 only in the last.
  void Append(const LionLane& lane, absl::Span<const float> gradient) {
    const uint64_t elements = LastWordBits(gradient.size());
    const uint64_t zero = lane.zero & elements;
    const bool silent = zero == elements;
    uint64_t word = silent ? 0 : lane.plus & elements;
    if (zero != 0 && !silent) {
      word |= zero & RandomWord(options_.zero_key, options_.first_lane + next_);
    }
    if (!lane.all_finite) stats_.nonfinite += CountNonfinite(gradient);
    StoreWord(signs_, next_, word);
    AppendToMask(silent);
  }

  LionEncodeStats Finish() {
    const bool has_mask = stats_.silent_lanes > 0;
    if (has_mask) head_[0] = kSignHasLaneMask;
    stats_.payload_bytes =
        kHeadBytes + kWordBytes * (lanes_ + (has_mask ? MaskWords(lanes_) : 0));
    return stats_;
  }

 private:
  void AppendToMask(bool silent) {
    stats_.silent_lanes += silent;
    mask_word_ |= uint64_t{!silent} << (next_ % 64);
    ++next_;
    if (next_ % 64 == 0 || next_ == lanes_) {
      StoreWord(mask_, (next_ - 1) / 64, mask_word_);
      mask_word_ = 0;
    }
  }

  const LionEncodeOptions& options_;
  const size_t lanes_;
  unsigned char* const head_;
  unsigned char* const signs_;
  unsigned char* const mask_;
  size_t next_ = 0;
  uint64_t mask_word_ = 0;
  LionEncodeStats stats_;
};

void EncodeWholeLanes(const LionEncodeCoefficients& k, absl::Span<const float> gradient,
                      absl::Span<float> momentum, LionEncoder* encoder) {
  constexpr size_t kBatch = 64;
  LionLane lanes[kBatch];
  const size_t whole = gradient.size() / kLaneElements;
  for (size_t first = 0; first < whole; first += kBatch) {
    const size_t size = std::min(kBatch, whole - first);
    HWY_DYNAMIC_DISPATCH(EncodeLanes)
    (k, gradient.data() + first * kLaneElements, momentum.data() + first * kLaneElements, size,
     lanes);
    for (size_t i = 0; i < size; ++i) {
      encoder->Append(lanes[i], gradient.subspan((first + i) * kLaneElements, kLaneElements));
    }
  }
}

void EncodeTail(const LionEncodeCoefficients& k, absl::Span<const float> gradient,
                absl::Span<float> momentum, LionEncoder* encoder) {
  if (gradient.empty()) return;
  float g[kLaneElements] = {}, m[kLaneElements] = {};
  std::copy(gradient.begin(), gradient.end(), g);
  std::copy(momentum.begin(), momentum.end(), m);
  LionLane lane;
  HWY_DYNAMIC_DISPATCH(EncodeLanes)(k, g, m, 1, &lane);
  std::copy_n(m, momentum.size(), momentum.begin());
  encoder->Append(lane, gradient);
}

}  // namespace

absl::StatusOr<LionEncodeStats> LionEncode(absl::Span<const float> gradient,
                                           absl::Span<float> momentum,
                                           const LionEncodeOptions& options,
                                           absl::Span<unsigned char> out) {
  TALLY_RETURN_IF_ERROR(CheckBeta("beta1", options.beta1));
  TALLY_RETURN_IF_ERROR(CheckBeta("beta2", options.beta2));
  TALLY_RETURN_IF_ERROR(CheckSizes(gradient.size(), momentum.size(), out.size()));
  const LionEncodeCoefficients k = CoefficientsOf(options);
  LionEncoder encoder(options, gradient.size(), out.data());
  const size_t whole = gradient.size() / kLaneElements * kLaneElements;
  EncodeWholeLanes(k, gradient.first(whole), momentum.first(whole), &encoder);
  EncodeTail(k, gradient.subspan(whole), momentum.subspan(whole), &encoder);
  return encoder.Finish();
}

absl::StatusOr<LionEncodeStats> LionEncode(absl::Span<const float> gradient,
                                           absl::Span<float> momentum,
                                           const LionEncodeOptions& options, Bytes* payload) {
  payload->resize(SignPayloadBytes(gradient.size(), true));
  TALLY_ASSIGN_OR_RETURN(const LionEncodeStats stats,
                         LionEncode(gradient, momentum, options, absl::MakeSpan(*payload)));
  payload->resize(stats.payload_bytes);
  return stats;
}

}  // namespace tally
#endif  // HWY_ONCE
