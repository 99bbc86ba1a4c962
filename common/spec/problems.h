// Collecting problems of a spec in one voice.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/spec/check.h"

namespace tally {

// Text from outside, fit for one line of a message.
inline std::string Quoted(absl::string_view text) {
  constexpr size_t kShown = 60;
  const bool cut = text.size() > kShown;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)), cut ? "...\"" : "\"",
                      cut ? absl::StrCat(" (", text.size(), " characters)") : "");
}

class Problems {
 public:
  // "expected EXPECTED, found FOUND" unless `ok`.
  void Check(bool ok, absl::string_view field, absl::string_view expected,
             const absl::AlphaNum& found) {
    if (ok) return;
    list_.push_back({std::string(field), absl::StrCat("expected ", expected, ", found ", found)});
  }
  std::vector<SpecProblem> Take() && { return std::move(list_); }

 private:
  std::vector<SpecProblem> list_;
};

}  // namespace tally
