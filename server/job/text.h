// Text from outside, made fit to be stored, sent and shown on a terminal.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// At most `limit` bytes and a note of how many were cut; bytes that are no UTF-8 and control
// characters other than newline and tab become \xNN.
std::string CleanText(absl::string_view text, size_t limit);
// The same on one line.
std::string OneLine(absl::string_view clean);

}  // namespace tally
