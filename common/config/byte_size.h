// Sizes in bytes as people write them: a whole number and a binary unit, "64KiB", "256MiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tally {

// Units are B, KiB, MiB, GiB and TiB, without a space before them. Nothing for other text: no unit, a
// fraction, a decimal unit (MB), or a size that 64 bits do not hold.
std::optional<uint64_t> ParseByteSize(absl::string_view text);
// In the largest unit that holds it exactly; reads back as the same.
std::string ByteSizeText(uint64_t bytes);

}  // namespace tally
