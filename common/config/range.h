// Ranges that a number or a duration in a configuration must lie in, with their words for people.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/time/time.h"

namespace tally {

// Both ends belong to the range.
struct IntRange {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
};

struct Uint64Range {
  uint64_t low = 0;
  uint64_t high = std::numeric_limits<uint64_t>::max();
};

struct DurationRange {
  absl::Duration low = absl::ZeroDuration();
  absl::Duration high = absl::InfiniteDuration();  // itself never in the range
};

// An open end does not belong to the range. NaN and the infinities never do.
struct DoubleRange {
  double low = -std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::max();
  bool low_open = false;
  bool high_open = false;

  static DoubleRange Above(double low) { return {.low = low, .low_open = true}; }
  static DoubleRange AtLeast(double low) { return {.low = low}; }
  // [low, high], [low, high), (low, high].
  static DoubleRange Closed(double low, double high) { return {.low = low, .high = high}; }
  static DoubleRange ClosedOpen(double low, double high) {
    return {.low = low, .high = high, .high_open = true};
  }
  static DoubleRange OpenClosed(double low, double high) {
    return {.low = low, .high = high, .low_open = true};
  }
};

bool Contains(const IntRange& range, int64_t value);
bool Contains(const Uint64Range& range, uint64_t value);
bool Contains(const DoubleRange& range, double value);
bool Contains(const DurationRange& range, absl::Duration value);

// "an integer from 1 to 8", "a number above 0", "a duration of at least 1s".
std::string Describe(const IntRange& range);
std::string Describe(const Uint64Range& range);
std::string Describe(const DoubleRange& range);
std::string Describe(const DurationRange& range);

}  // namespace tally
