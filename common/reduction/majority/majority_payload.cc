#include "common/reduction/majority/majority_payload.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "majority aggregate";

absl::Status BadLane(size_t lane, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(kWhat, ": lane ", lane, " ", message));
}

absl::Status CheckSilentLanes(const MajorityView& view) {
  if (view.lane_mask == nullptr) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(CheckLaneMask(kWhat, view.lane_mask, view.lanes));
  for (size_t lane = 0; lane < view.lanes; ++lane) {
    if (view.voted(lane)) continue;
    const uint64_t nonzero = view.nonzero != nullptr ? LoadWord(view.nonzero, lane) : 0;
    if ((LoadWord(view.signs, lane) | nonzero) != 0) {
      return BadLane(lane, "had no voters but has a result");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTies(uint32_t count, const MajorityView& view) {
  if (view.nonzero == nullptr) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(CheckPadding(kWhat, "nonzero plane", view.nonzero, count));
  bool any_tie = false;
  for (size_t lane = 0; lane < view.lanes; ++lane) {
    const uint64_t nonzero = LoadWord(view.nonzero, lane);
    const uint64_t all = lane + 1 < view.lanes ? ~uint64_t{0} : LastWordBits(count);
    any_tie |= view.voted(lane) && nonzero != all;
    if (LoadWord(view.signs, lane) & ~nonzero) return BadLane(lane, "has a plus that is a tie");
  }
  if (any_tie) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kWhat, ": a nonzero plane is present but nothing tied"));
}

}  // namespace

absl::StatusOr<MajorityView> ParseMajority(uint32_t count, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(
      CheckHead(kWhat, count, payload, kMajorityHasLaneMask | kMajorityHasNonzero, 1));
  const bool has_mask = payload[0] & kMajorityHasLaneMask;
  const bool has_nonzero = payload[0] & kMajorityHasNonzero;
  TALLY_RETURN_IF_ERROR(
      CheckLength(kWhat, payload, MajorityPayloadBytes(count, has_nonzero, has_mask)));
  MajorityView view;
  view.lanes = LaneCount(count);
  view.signs = payload.data() + kHeadBytes;
  const unsigned char* next = view.signs + view.lanes * kWordBytes;
  if (has_nonzero) {
    view.nonzero = next;
    next += view.lanes * kWordBytes;
  }
  if (has_mask) view.lane_mask = next;
  return view;
}

absl::Status CheckMajority(uint32_t count, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const MajorityView view, ParseMajority(count, payload));
  TALLY_RETURN_IF_ERROR(CheckPadding(kWhat, "signs", view.signs, count));
  TALLY_RETURN_IF_ERROR(CheckSilentLanes(view));
  return CheckTies(count, view);
}

}  // namespace tally
