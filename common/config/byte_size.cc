#include "common/config/byte_size.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tally {
namespace {

struct Unit {
  absl::string_view name;
  int shift;
};

constexpr Unit kUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}};

}  // namespace

std::optional<uint64_t> ParseByteSize(absl::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c);
  });
  const auto digits = static_cast<size_t>(end - text.begin());
  uint64_t count = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &count)) return std::nullopt;
  for (const Unit& unit : kUnits) {
    if (text.substr(digits) != unit.name) continue;
    if (count > std::numeric_limits<uint64_t>::max() >> unit.shift) return std::nullopt;
    return count << unit.shift;
  }
  return std::nullopt;
}

std::string ByteSizeText(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    const uint64_t count = bytes >> unit.shift;
    if (count > 0 && count << unit.shift == bytes) return absl::StrCat(count, unit.name);
  }
  return "0B";
}

}  // namespace tally
