// Propagating absl::Status. Every error says what was expected, what was found, and where.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tally {

// The same status with `context` and ": " before its message; OK stays OK.
inline absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace tally

#define TALLY_RETURN_IF_ERROR(expression)              \
  do {                                                 \
    if (absl::Status tally_status_ = (expression); !tally_status_.ok()) { \
      return tally_status_;                            \
    }                                                  \
  } while (false)

#define TALLY_CONCAT_INNER_(a, b) a##b
#define TALLY_CONCAT_(a, b) TALLY_CONCAT_INNER_(a, b)

// TALLY_ASSIGN_OR_RETURN(auto x, F()); declares or assigns x, or returns F's error.
#define TALLY_ASSIGN_OR_RETURN(left, expression) \
  TALLY_ASSIGN_OR_RETURN_IMPL_(TALLY_CONCAT_(tally_or_, __LINE__), left, expression)
#define TALLY_ASSIGN_OR_RETURN_IMPL_(temporary, left, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return std::move(temporary).status();      \
  left = *std::move(temporary)
