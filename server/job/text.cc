#include "server/job/text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/config/utf8.h"

namespace tally {
namespace {

// The length of the longest prefix of at most `limit` bytes that splits no character.
size_t CutLength(absl::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  size_t length = limit;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  // Where the text is no UTF-8 there may be nothing but continuation bytes.
  return length == 0 ? limit : length;
}

bool IsControl(unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }

}  // namespace

std::string CleanText(absl::string_view text, size_t limit) {
  const size_t length = CutLength(text, limit);
  const absl::string_view kept = text.substr(0, length);
  std::string clean;
  if (FirstBadText(kept).has_value()) {
    clean = absl::CHexEscape(kept);
  } else {
    for (const char c : kept) {
      if (IsControl(static_cast<unsigned char>(c))) {
        absl::StrAppend(&clean, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
      } else {
        clean.push_back(c);
      }
    }
  }
  if (length < text.size()) absl::StrAppend(&clean, " … (", text.size() - length, " bytes more)");
  return clean;
}

std::string OneLine(absl::string_view clean) {
  return absl::StrReplaceAll(clean, {{"\n", "\\n"}, {"\t", " "}});
}

}  // namespace tally
