#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tally {

struct BadText {
  int line = 1;
  std::string what;  // "a NUL byte", "the byte 0xff"
};

// The first byte of `text` that is no part of well-formed UTF-8 (RFC 3629: no overlong forms, no
// surrogates, nothing past U+10FFFF), or is NUL.
std::optional<BadText> FirstBadText(absl::string_view text);

}  // namespace tally
