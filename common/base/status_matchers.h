// Test matchers for absl::Status and absl::StatusOr (Debian's Abseil has none). Tests only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "gmock/gmock.h"

namespace tally::testing {

inline const absl::Status& ToStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << ToStatus(arg).ToString();
  return ToStatus(arg).ok();
}

// StatusIs(absl::StatusCode::kNotFound, HasSubstr("x")).
MATCHER_P2(StatusIs, code, message, "has the status code and message asked for") {
  const absl::Status& status = ToStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

}  // namespace tally::testing

#define TALLY_ASSERT_OK(expression) ASSERT_THAT((expression), ::tally::testing::IsOk())
#define TALLY_EXPECT_OK(expression) EXPECT_THAT((expression), ::tally::testing::IsOk())
#define TALLY_ASSERT_OK_AND_ASSIGN(left, expression) \
  TALLY_ASSERT_OK_AND_ASSIGN_IMPL_(TALLY_CONCAT_(tally_or_, __LINE__), left, expression)
#define TALLY_ASSERT_OK_AND_ASSIGN_IMPL_(temporary, left, expression) \
  auto temporary = (expression);                                      \
  ASSERT_THAT(temporary, ::tally::testing::IsOk());                   \
  left = *std::move(temporary)
