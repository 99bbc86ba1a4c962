// What the checks of all payload formats share. Every error is INVALID_ARGUMENT and begins with
// `what`, the name of the format.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/reduction/reduction.h"

namespace tally {

// A chunk with elements, a whole head, no flag beyond `known_flags` in byte 0 and zeros in head
// bytes `first_reserved` to 7.
absl::Status CheckHead(absl::string_view what, size_t count, ByteSpan payload,
                       unsigned char known_flags, size_t first_reserved);

absl::Status CheckLength(absl::string_view what, ByteSpan payload, size_t expected);

// No bit beyond the first `bits` in a plane of words.
absl::Status CheckPadding(absl::string_view what, absl::string_view plane_name,
                          const unsigned char* plane, size_t bits);

// A mask of one bit a lane: no padding bit set, and at least one lane silent, since a mask that
// says nothing must be left out.
absl::Status CheckLaneMask(absl::string_view what, const unsigned char* mask, size_t lanes);

// INVALID_ARGUMENT unless 0 <= weight <= kMaxWeight.
absl::Status CheckWeight(double weight);

}  // namespace tally
