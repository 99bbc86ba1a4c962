#include "common/base/status.h"

#include <memory>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;

absl::Status ReturnIfError(const absl::Status& status, int& reached) {
  TALLY_RETURN_IF_ERROR(status);
  ++reached;
  return absl::OkStatus();
}

absl::StatusOr<int> Twice(absl::StatusOr<int> input) {
  TALLY_ASSIGN_OR_RETURN(const int value, input);
  int other = 0;
  TALLY_ASSIGN_OR_RETURN(other, std::move(input));
  return value + other;
}

TEST(Status, ReturnIfErrorReturnsTheError) {
  int reached = 0;
  TALLY_EXPECT_OK(ReturnIfError(absl::OkStatus(), reached));
  EXPECT_EQ(reached, 1);
  EXPECT_THAT(ReturnIfError(absl::NotFoundError("x"), reached),
              StatusIs(absl::StatusCode::kNotFound, "x"));
  EXPECT_EQ(reached, 1);
}

TEST(Status, ReturnIfErrorEvaluatesOnceAndFitsAnIf) {
  int calls = 0;
  const auto call = [&] {
    ++calls;
    return absl::OkStatus();
  };
  const auto run = [&](bool yes) -> absl::Status {
    if (yes) TALLY_RETURN_IF_ERROR(call());
    return absl::OkStatus();
  };
  TALLY_EXPECT_OK(run(true));
  TALLY_EXPECT_OK(run(false));
  EXPECT_EQ(calls, 1);
}

TEST(Status, AssignOrReturn) {
  TALLY_ASSERT_OK_AND_ASSIGN(const int value, Twice(4));
  EXPECT_EQ(value, 8);
  EXPECT_THAT(Twice(absl::InternalError("y")), StatusIs(absl::StatusCode::kInternal, "y"));
}

TEST(Status, AssignOrReturnMoves) {
  const auto take = []() -> absl::StatusOr<std::unique_ptr<int>> {
    TALLY_ASSIGN_OR_RETURN(
        auto pointer, absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(3)));
    return pointer;
  };
  TALLY_ASSERT_OK_AND_ASSIGN(const auto pointer, take());
  EXPECT_EQ(*pointer, 3);
}

TEST(Status, ContextStandsBeforeTheMessage) {
  TALLY_EXPECT_OK(WithContext(absl::OkStatus(), "reading"));
  EXPECT_THAT(WithContext(absl::DataLossError("short"), "reading x"),
              StatusIs(absl::StatusCode::kDataLoss, "reading x: short"));
}

}  // namespace
}  // namespace tally
