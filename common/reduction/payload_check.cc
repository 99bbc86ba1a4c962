#include "common/reduction/payload_check.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/reduction/words.h"

namespace tally {
namespace {

absl::Status Invalid(absl::string_view what, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", message));
}

}  // namespace

absl::Status CheckHead(absl::string_view what, size_t count, ByteSpan payload,
                       unsigned char known_flags, size_t first_reserved) {
  if (count == 0) return Invalid(what, "a chunk has at least one element, found 0");
  if (payload.size() < kHeadBytes) {
    return Invalid(what, absl::StrCat("expected a head of ", kHeadBytes, " bytes, found ",
                                      payload.size(), " bytes in all"));
  }
  if (payload[0] & ~known_flags) {
    return Invalid(what, absl::StrCat("unknown flags in head byte 0: 0x",
                                      absl::Hex(payload[0], absl::kZeroPad2)));
  }
  for (size_t i = first_reserved; i < kHeadBytes; ++i) {
    if (payload[i] != 0) {
      return Invalid(what, absl::StrCat("head byte ", i, " is reserved: expected 0, found ",
                                        static_cast<int>(payload[i])));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLength(absl::string_view what, ByteSpan payload, size_t expected) {
  if (payload.size() == expected) return absl::OkStatus();
  return Invalid(what, absl::StrCat("expected ", expected, " bytes, found ", payload.size()));
}

absl::Status CheckPadding(absl::string_view what, absl::string_view plane_name,
                          const unsigned char* plane, size_t bits) {
  const size_t last = LaneCount(bits) - 1;
  if ((LoadWord(plane, last) & ~LastWordBits(bits)) == 0) return absl::OkStatus();
  return Invalid(what, absl::StrCat("padding bits of the ", plane_name, " are set in word ", last));
}

absl::Status CheckLaneMask(absl::string_view what, const unsigned char* mask, size_t lanes) {
  TALLY_RETURN_IF_ERROR(CheckPadding(what, "lane mask", mask, lanes));
  const size_t last = MaskWords(lanes) - 1;
  for (size_t i = 0; i < last; ++i) {
    if (LoadWord(mask, i) != ~uint64_t{0}) return absl::OkStatus();
  }
  if (LoadWord(mask, last) != LastWordBits(lanes)) return absl::OkStatus();
  return Invalid(what, "a lane mask is present but no lane is silent");
}

absl::Status CheckWeight(double weight) {
  if (weight >= 0 && weight <= kMaxWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weight: expected a number from 0 to 2^53, found ", weight));
}

}  // namespace tally
