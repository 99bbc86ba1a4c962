#include "common/reduction/sign_payload.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "sign contribution";

bool AnySilent(absl::Span<const uint64_t> lane_mask, size_t lanes) {
  if (lane_mask.empty()) return false;
  for (size_t i = 0; i + 1 < lane_mask.size(); ++i) {
    if (lane_mask[i] != ~uint64_t{0}) return true;
  }
  return lane_mask.back() != LastWordBits(lanes);
}

struct LaneSigns {
  uint64_t word = 0;
  bool votes = false;
};

LaneSigns SignsOf(absl::Span<const float> lane, uint64_t zero_bits) {
  LaneSigns signs;
  for (size_t i = 0; i < lane.size(); ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (lane[i] != 0) signs.votes = true;
    if (lane[i] > 0 || (lane[i] == 0 && (zero_bits & bit))) signs.word |= bit;
  }
  if (!signs.votes) signs.word = 0;
  return signs;
}

}  // namespace

SignView SignView::Slice(size_t first, size_t size) const {
  SignView slice;
  slice.lanes = size;
  slice.signs = signs + first * kWordBytes;
  if (lane_mask != nullptr) slice.lane_mask = lane_mask + first / 64 * kWordBytes;
  return slice;
}

absl::StatusOr<SignView> ParseSignPayload(uint32_t count, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckHead(kWhat, count, payload, kSignHasLaneMask, 1));
  const bool has_mask = payload[0] & kSignHasLaneMask;
  TALLY_RETURN_IF_ERROR(CheckLength(kWhat, payload, SignPayloadBytes(count, has_mask)));
  SignView view;
  view.lanes = LaneCount(count);
  view.signs = payload.data() + kHeadBytes;
  if (has_mask) view.lane_mask = view.signs + view.lanes * kWordBytes;
  return view;
}

absl::Status CheckSignPayload(uint32_t count, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const SignView view, ParseSignPayload(count, payload));
  TALLY_RETURN_IF_ERROR(CheckPadding(kWhat, "signs", view.signs, count));
  if (view.lane_mask == nullptr) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(CheckLaneMask(kWhat, view.lane_mask, view.lanes));
  for (size_t lane = 0; lane < view.lanes; ++lane) {
    if (!view.votes(lane) && LoadWord(view.signs, lane) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWhat, ": lane ", lane, " is silent but has votes"));
    }
  }
  return absl::OkStatus();
}

Bytes WriteSignPayload(absl::Span<const uint64_t> signs, absl::Span<const uint64_t> lane_mask) {
  if (!AnySilent(lane_mask, signs.size())) lane_mask = {};
  Bytes payload(kHeadBytes + kWordBytes * (signs.size() + lane_mask.size()));
  if (!lane_mask.empty()) payload[0] = kSignHasLaneMask;
  unsigned char* words = payload.data() + kHeadBytes;
  for (size_t w = 0; w < signs.size(); ++w) StoreWord(words, w, signs[w]);
  words += signs.size() * kWordBytes;
  for (size_t w = 0; w < lane_mask.size(); ++w) StoreWord(words, w, lane_mask[w]);
  return payload;
}

Bytes PackSigns(absl::Span<const float> values, uint64_t first_lane, uint64_t zero_key) {
  const size_t lanes = LaneCount(values.size());
  std::vector<uint64_t> signs(lanes);
  std::vector<uint64_t> mask(MaskWords(lanes));
  for (size_t lane = 0; lane < lanes; ++lane) {
    const LaneSigns packed = SignsOf(values.subspan(lane * kLaneElements, kLaneElements),
                                     RandomWord(zero_key, first_lane + lane));
    signs[lane] = packed.word;
    if (packed.votes) mask[lane / 64] |= uint64_t{1} << (lane % 64);
  }
  return WriteSignPayload(signs, mask);
}

}  // namespace tally
