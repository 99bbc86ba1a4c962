#include "server/job/states.h"

#include <map>
#include <set>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::IsOk;
using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

TEST(States, TableHasEveryStateOnce) {
  std::set<int> found;
  for (const JobStateRow& row : JobStateTable()) {
    EXPECT_TRUE(found.insert(row.state).second) << row.name;
    EXPECT_EQ(row.name, v1::JobState_Name(row.state));
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(v1::JobState_descriptor()->value_count() - 1));
  EXPECT_FALSE(found.contains(v1::JOB_STATE_UNSPECIFIED));
}

TEST(States, NamesGoBothWays) {
  for (const JobStateRow& row : JobStateTable()) {
    EXPECT_EQ(JobStateName(row.state), row.name);
    EXPECT_EQ(*ParseJobState(row.name), row.state);
  }
  EXPECT_EQ(JobStateName(static_cast<v1::JobState>(77)), "UNSPECIFIED");
  EXPECT_THAT(ParseJobState("running"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("PENDING, WAITING"), HasSubstr("found \"running\""))));
  EXPECT_FALSE(ParseJobState("").ok());
}

// Row by row, whether the column's state may follow: P W R p F S f C.
TEST(States, EveryPair) {
  const std::vector<v1::JobState> states = {v1::PENDING,    v1::WAITING,   v1::RUNNING,
                                            v1::PAUSED,     v1::FINALIZING, v1::SUCCEEDED,
                                            v1::FAILED,     v1::CANCELLED};
  const std::vector<std::string> allowed = {
      "11000011",  // PENDING
      "01111011",  // WAITING
      "01111011",  // RUNNING
      "01111011",  // PAUSED
      "01111111",  // FINALIZING
      "00000100",  // SUCCEEDED
      "00000010",  // FAILED
      "00000001",  // CANCELLED
  };
  for (size_t from = 0; from < states.size(); ++from) {
    for (size_t to = 0; to < states.size(); ++to) {
      EXPECT_EQ(CheckTransition(states[from], states[to]).ok(), allowed[from][to] == '1')
          << JobStateName(states[from]) << " -> " << JobStateName(states[to]);
    }
  }
}

TEST(States, LateRunningAfterCancelledIsRefusedByName) {
  EXPECT_THAT(CheckTransition(v1::CANCELLED, v1::RUNNING),
              StatusIs(kRefused, HasSubstr("the job has ended: CANCELLED")));
  EXPECT_THAT(CheckTransition(v1::PENDING, v1::RUNNING),
              StatusIs(kRefused, AllOf(HasSubstr("PENDING"), HasSubstr("RUNNING"))));
}

TEST(States, UnknownStatesAreRefused) {
  EXPECT_FALSE(CheckTransition(v1::JOB_STATE_UNSPECIFIED, v1::RUNNING).ok());
  EXPECT_FALSE(CheckTransition(v1::RUNNING, v1::JOB_STATE_UNSPECIFIED).ok());
  EXPECT_FALSE(IsTerminal(v1::JOB_STATE_UNSPECIFIED));
}

TEST(States, EachStateIsQueuedOrHoldsWorkersOrIsTerminal) {
  for (const JobStateRow& row : JobStateTable()) {
    const int kinds = (row.state == v1::PENDING) + HoldsWorkers(row.state) + IsTerminal(row.state);
    EXPECT_EQ(kinds, 1) << row.name;
  }
}

TEST(States, ResultIsThereBeforeSuccessIsAnnounced) {
  std::map<v1::JobState, Announced> announced;
  for (const JobStateRow& row : JobStateTable()) announced[row.state] = row.announced;
  EXPECT_EQ(announced[v1::SUCCEEDED], Announced::kAfter);
  EXPECT_EQ(announced[v1::WAITING], Announced::kBefore);
}

}  // namespace
}  // namespace tally
