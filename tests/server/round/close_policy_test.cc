#include "server/round/close_policy.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(10);

RoundProgress Progress(uint32_t contributed, uint32_t abstained, uint32_t awaited,
                       uint32_t attached, absl::Duration since = absl::ZeroDuration()) {
  return {contributed, abstained, awaited, attached, since, kDeadline};
}

struct Case {
  std::string what;
  RoundProgress progress;
  CloseOptions options;  // workers, quorum, minimum
  CloseAction action;
  std::string reason;
};

TEST(ClosePolicyTest, Table) {
  const std::vector<Case> cases = {
      {"all contributed", Progress(3, 0, 0, 3), {3, 3, 3}, CloseAction::kClose, "all 3 awaited"},
      {"one worker", Progress(1, 0, 0, 1), {1, 1, 1}, CloseAction::kClose, "all 1 awaited"},
      {"nobody yet", Progress(0, 0, 3, 3), {3, 2, 2}, CloseAction::kWait, "waiting for 3"},
      {"quorum before the deadline", Progress(2, 0, 1, 3, kDeadline - absl::Nanoseconds(1)),
       {3, 2, 2}, CloseAction::kWait, "waiting for 1; 2 contributed, quorum 2"},
      {"quorum at the deadline", Progress(2, 0, 1, 3, kDeadline), {3, 2, 2}, CloseAction::kClose,
       "deadline reached with 2"},
      {"no quorum at the deadline", Progress(1, 0, 2, 3, kDeadline), {3, 2, 2},
       CloseAction::kOverdue, "deadline has passed with 1 contributed, quorum 2"},
      {"no quorum and below the minimum at the deadline", Progress(0, 0, 1, 1, kDeadline),
       {3, 2, 2}, CloseAction::kPause, "1 attached, minimum 2"},
      {"gone after contributing", Progress(3, 0, 0, 1), {3, 3, 2}, CloseAction::kClose, "all 3"},
      {"gone before contributing", Progress(2, 0, 0, 2), {3, 2, 2}, CloseAction::kClose, "all 2"},
      {"below the minimum", Progress(0, 0, 1, 1), {3, 2, 2}, CloseAction::kPause,
       "1 attached, minimum 2"},
      {"nobody at all", Progress(0, 0, 0, 0), {3, 2, 1}, CloseAction::kPause, "0 attached"},
      {"nobody left to wait for", Progress(1, 0, 0, 1), {3, 2, 1}, CloseAction::kPause,
       "nobody left to wait for; 1 contributed, quorum 2"},
      {"abstentions make the quorum impossible", Progress(1, 2, 0, 3), {3, 2, 2},
       CloseAction::kFail, "2 of 3 contributions cannot be used, quorum 2"},
      {"impossible although somebody is awaited", Progress(0, 2, 1, 3), {3, 2, 2},
       CloseAction::kFail, "quorum 2"},
      {"impossible although all are gone", Progress(0, 2, 0, 0), {3, 2, 2}, CloseAction::kFail,
       "quorum 2"},
      {"one abstains, one is away and may come back", Progress(1, 1, 0, 2), {3, 2, 2},
       CloseAction::kPause, "nobody left"},
      {"one abstains, the quorum is there", Progress(2, 1, 0, 3), {3, 2, 2}, CloseAction::kClose,
       "all 2"},
      {"the only worker abstains", Progress(0, 1, 0, 1), {1, 1, 1}, CloseAction::kFail, "1 of 1"},
  };
  for (const Case& c : cases) {
    const CloseDecision decision = DecideClose(c.progress, c.options);
    EXPECT_EQ(decision.action, c.action) << c.what << ": " << decision.reason;
    EXPECT_THAT(decision.reason, HasSubstr(c.reason)) << c.what;
  }
}

}  // namespace
}  // namespace tally::testing
