#include "common/reduction/sign_mean/sign_mean_payload.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/payload_check.h"

namespace tally {
namespace {

constexpr absl::string_view kWhat = "sign_mean aggregate";

absl::Status Invalid(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(kWhat, ": ", message));
}

absl::Status CheckLaneVoters(const SignMeanView& view) {
  if (view.lane_voters == nullptr) return absl::OkStatus();
  bool any_partial = false;
  for (size_t lane = 0; lane < view.lanes; ++lane) {
    const size_t voters = view.lane_voters[lane];
    any_partial |= voters != view.voters;
    if (voters > view.voters) {
      return Invalid(absl::StrCat("lane ", lane, " has ", voters, " voters of ", view.voters));
    }
  }
  for (size_t i = view.lanes; i % 8 != 0; ++i) {
    if (view.lane_voters[i] != 0) return Invalid("padding of the lane voters is not 0");
  }
  if (!any_partial) return Invalid("lane voters are present but every lane has all");
  return absl::OkStatus();
}

// The elements of the lane whose count is above its voters, found for 64 at once.
uint64_t AboveVoters(const SignMeanView& view, size_t lane) {
  const size_t voters = view.LaneVoters(lane);
  uint64_t above = 0;
  uint64_t equal = ~uint64_t{0};
  for (size_t k = view.plane_count; k-- > 0;) {
    const uint64_t plane = view.word(k, lane);
    if ((voters >> k) & 1) {
      equal &= plane;
    } else {
      above |= equal & plane;
      equal &= ~plane;
    }
  }
  return above;
}

}  // namespace

absl::StatusOr<SignMeanView> ParseSignMean(uint32_t count, ByteSpan payload) {
  TALLY_RETURN_IF_ERROR(CheckHead(kWhat, count, payload, kSignMeanHasLaneVoters, 2));
  if (payload[1] == 0) return Invalid("head byte 1: expected at least one voter, found 0");
  SignMeanView view;
  view.lanes = LaneCount(count);
  view.voters = payload[1];
  view.plane_count = PlaneCount(view.voters);
  const bool has_lane_voters = payload[0] & kSignMeanHasLaneVoters;
  TALLY_RETURN_IF_ERROR(
      CheckLength(kWhat, payload, SignMeanPayloadBytes(count, view.voters, has_lane_voters)));
  view.planes = payload.data() + kHeadBytes;
  if (has_lane_voters) {
    view.lane_voters = view.planes + view.plane_count * view.lanes * kWordBytes;
  }
  return view;
}

absl::Status CheckSignMean(uint32_t count, ByteSpan payload) {
  TALLY_ASSIGN_OR_RETURN(const SignMeanView view, ParseSignMean(count, payload));
  for (size_t k = 0; k < view.plane_count; ++k) {
    TALLY_RETURN_IF_ERROR(CheckPadding(kWhat, absl::StrCat("plane ", k),
                                       view.planes + k * view.lanes * kWordBytes, count));
  }
  TALLY_RETURN_IF_ERROR(CheckLaneVoters(view));
  for (size_t lane = 0; lane < view.lanes; ++lane) {
    if (AboveVoters(view, lane) != 0) {
      return Invalid(absl::StrCat("lane ", lane, " has a count above its ", view.LaneVoters(lane),
                                  " voters"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tally
