#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tally {

// "; did you mean CHOICE?" for the choice that `word` is most likely a slip of, or "".
std::string DidYouMean(absl::string_view word, absl::Span<const std::string> choices);

}  // namespace tally
