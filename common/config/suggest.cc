#include "common/config/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

// Levenshtein's distance: single-character insertions, deletions and substitutions.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string DidYouMean(absl::string_view word, absl::Span<const std::string> choices) {
  constexpr size_t kLongestWord = 100;
  if (word.size() > kLongestWord) return "";
  const size_t allowed = std::max<size_t>(1, word.size() / 3);
  size_t best = allowed + 1;
  const std::string* nearest = nullptr;
  for (const std::string& choice : choices) {
    const size_t distance = EditDistance(word, choice);
    if (distance < best) {
      best = distance;
      nearest = &choice;
    }
  }
  return nearest == nullptr ? "" : absl::StrCat("; did you mean ", *nearest, "?");
}

}  // namespace tally
