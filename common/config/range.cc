#include "common/config/range.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace tally {
namespace {

// "KIND", "KIND of at least LOW", "KIND of at most HIGH" or "KIND from LOW to HIGH".
std::string WithEnds(absl::string_view kind, const std::string& low, const std::string& high) {
  if (low.empty() && high.empty()) return std::string(kind);
  if (high.empty()) return absl::StrCat(kind, " of at least ", low);
  if (low.empty()) return absl::StrCat(kind, " of at most ", high);
  return absl::StrCat(kind, " from ", low, " to ", high);
}

}  // namespace

bool Contains(const IntRange& range, int64_t value) {
  return value >= range.low && value <= range.high;
}

bool Contains(const Uint64Range& range, uint64_t value) {
  return value >= range.low && value <= range.high;
}

bool Contains(const DoubleRange& range, double value) {
  if (!std::isfinite(value)) return false;
  const bool above = range.low_open ? value > range.low : value >= range.low;
  const bool below = range.high_open ? value < range.high : value <= range.high;
  return above && below;
}

bool Contains(const DurationRange& range, absl::Duration value) {
  return value >= range.low && value <= range.high && value != absl::InfiniteDuration() &&
         value != -absl::InfiniteDuration();
}

std::string Describe(const IntRange& range) {
  const IntRange all;
  return WithEnds("an integer", range.low == all.low ? "" : absl::StrCat(range.low),
                  range.high == all.high ? "" : absl::StrCat(range.high));
}

std::string Describe(const Uint64Range& range) {
  const Uint64Range all;
  return WithEnds("an integer", absl::StrCat(range.low),
                  range.high == all.high ? "" : absl::StrCat(range.high));
}

std::string Describe(const DoubleRange& range) {
  const DoubleRange all;
  std::string text = "a finite number";
  if (range.low != all.low) {
    absl::StrAppend(&text, range.low_open ? " above " : " of at least ", range.low);
  }
  if (range.high != all.high) {
    absl::StrAppend(&text, range.low != all.low ? " and" : "",
                    range.high_open ? " below " : " of at most ", range.high);
  }
  return text;
}

std::string Describe(const DurationRange& range) {
  const bool no_low = range.low == absl::ZeroDuration() || range.low == -absl::InfiniteDuration();
  const bool no_high = range.high == absl::InfiniteDuration();
  return WithEnds("a duration such as 250ms, 30s or 1h30m",
                  no_low && no_high ? "" : absl::FormatDuration(range.low),
                  no_high ? "" : absl::FormatDuration(range.high));
}

}  // namespace tally
