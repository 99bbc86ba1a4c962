#include "common/config/utf8.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace tally {
namespace {

// Bytes of the sequence that starts with `lead` and the range of its second byte; length 0 if
// nothing starts with it.
struct Lead {
  size_t length;
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Length of the well-formed character at the start of `text`, 0 if there is none.
size_t CharacterLength(absl::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.length > text.size()) return 0;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return lead.length;
}

}  // namespace

std::optional<BadText> FirstBadText(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = text[at] == '\0' ? 0 : CharacterLength(text.substr(at));
    if (length == 0) {
      const auto lines = std::count(text.begin(), text.begin() + at, '\n');
      const auto byte = static_cast<uint8_t>(text[at]);
      return BadText{static_cast<int>(lines) + 1,
                     byte == 0 ? "a NUL byte" : absl::StrFormat("the byte 0x%02x", byte)};
    }
    at += length;
  }
  return std::nullopt;
}

}  // namespace tally
