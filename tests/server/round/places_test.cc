// Workers that come to a job and leave it for good, and a job that a person pauses.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/round/test_job.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlacesTest : public RestartTest {
 protected:
  PlacesTest() { spec_.mutable_workers()->set_max(4); }
};

TEST_F(PlacesTest, AJobGrowsWhileItRuns) {
  StartJob();
  EXPECT_EQ(run_->open_places(), 1);
  PlayRound();
  EXPECT_EQ(run_->AddWorker("d").value_or(99), 3);
  EXPECT_EQ(run_->open_places(), 0);
  EXPECT_THAT(observer_.workers(), ElementsAre("a", "b", "c", "d"));
  TestWorker d("d", 3);
  ASSERT_THAT(d.Attach(run_), IsOk());
  while (d.Drain()) {}
  EXPECT_EQ(d.open_round(), 2);
  for (TestWorker* worker : All()) worker->Contribute();
  Settle();
  EXPECT_EQ(a_.open_round(), 2) << "the round waits for the new one";
  d.Contribute();
  Settle();
  while (d.Drain()) {}
  EXPECT_EQ(a_.open_round(), 3);
  EXPECT_EQ(d.digest(), a_.digest());
  EXPECT_THAT(run_->AddWorker("e"), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  EXPECT_EQ(run_->AddWorker("b").value_or(99), 1) << "it has a place";
}

TEST_F(PlacesTest, AWorkerThatIsTakenAwayFinishesTheOpenRound) {
  StartJob();
  run_->RemoveWorker("b", "drained");
  EXPECT_THAT(run_->workers(), ElementsAre("a", "b", "c"));
  PlayRound();
  EXPECT_THAT(run_->workers(), ElementsAre("a", "", "c"));
  EXPECT_THAT(observer_.workers(), ElementsAre("a", "", "c"));
  ASSERT_TRUE(b_.stop().has_value());
  EXPECT_EQ(b_.stop()->reason(), "drained");
  EXPECT_THAT(b_.Attach(run_), StatusIs(absl::StatusCode::kPermissionDenied, ::testing::_));
  for (TestWorker* worker : {&a_, &c_}) worker->Contribute();
  Settle();
  EXPECT_EQ(a_.open_round(), 3);
  EXPECT_EQ(observer_.status().workers(1).contributions(), 1);
}

TEST_F(PlacesTest, AWorkerThatIsAwayIsTakenOffAtOnce) {
  StartJob();
  b_.Leave();
  run_->RemoveWorker("b", "gone for 10 minutes");
  EXPECT_THAT(run_->workers(), ElementsAre("a", "", "c"));
  EXPECT_EQ(run_->open_places(), 2);
}

TEST_F(PlacesTest, AVacantPlaceIsTakenWithItsIndexAndItsCount) {
  StartJob();
  PlayRound();
  b_.Leave();
  run_->RemoveWorker("b", "drained");
  EXPECT_EQ(run_->AddWorker("d").value_or(99), 1);
  EXPECT_THAT(run_->workers(), ElementsAre("a", "d", "c"));
  TestWorker d("d", 1);
  ASSERT_THAT(d.Attach(run_), IsOk());
  while (d.Drain()) {}
  EXPECT_EQ(d.open_round(), 2);
  d.Contribute();
  EXPECT_EQ(observer_.status().workers(1).name(), "d");
  EXPECT_EQ(observer_.status().workers(1).contributions(), 1) << "as of the last closed round";
}

TEST_F(PlacesTest, TooFewPlacesTakenPauseTheJob) {
  StartJob();
  b_.Leave();
  c_.Leave();
  run_->RemoveWorker("b", "drained");
  run_->RemoveWorker("c", "drained");
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_THAT(observer_.reason(), HasSubstr("1 attached, minimum 2"));
}

TEST_F(PlacesTest, ARemovalThatIsTakenBackInTimeChangesNothing) {
  StartJob();
  run_->RemoveWorker("b", "drained");
  EXPECT_EQ(run_->AddWorker("b").value_or(99), 1);
  PlayRound();
  EXPECT_EQ(b_.open_round(), 2);
}

class HoldTest : public RestartTest {};

TEST_F(HoldTest, TheOpenRoundEndsAndNoOtherOpensUntilUnhold) {
  StartJob();
  run_->Hold("a disk is changed");
  EXPECT_EQ(observer_.state(), v1::RUNNING);
  PlayRound();
  EXPECT_FALSE(a_.in_round());
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_EQ(observer_.reason(), "paused by a person: a disk is changed");
  clock_.Advance(absl::Hours(10));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::PAUSED) << "the pause limit is not for people";
  run_->Unhold();
  Settle();
  EXPECT_EQ(observer_.state(), v1::RUNNING);
  EXPECT_EQ(a_.open_round(), 2);
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(HoldTest, AJobIsHeldBeforeItsFirstRound) {
  Open();
  run_->Hold("");
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  for (TestWorker* worker : All()) ASSERT_THAT(worker->Attach(run_), IsOk());
  Settle();
  a_.SendBase();
  Settle();
  EXPECT_FALSE(a_.in_round());
  EXPECT_EQ(observer_.reason(), "paused by a person");
  run_->Unhold();
  Settle();
  EXPECT_EQ(a_.open_round(), 1);
}

TEST_F(HoldTest, UnholdBeforeTheBaseIsThereWaitsForIt) {
  Open();
  run_->Hold("");
  run_->Unhold();
  EXPECT_EQ(observer_.state(), v1::WAITING);
}

TEST_F(HoldTest, AHeldJobCanBeCancelled) {
  StartJob();
  PlayRound();
  run_->Hold("");
  run_->Cancel("enough");
  EXPECT_EQ(observer_.state(), v1::CANCELLED);
  run_->Unhold();
  EXPECT_EQ(observer_.state(), v1::CANCELLED);
}

TEST_F(HoldTest, ARestartedRunIsHeldIfItsOptionsSaySo) {
  StartJob();
  PlayRound();
  Stop();
  JobRunOptions options = Options();
  options.held = true;
  options.held_reason = "a disk is changed";
  auto run = JobRun::Open(options, {std::shared_ptr<void>(), &observer_});
  ASSERT_THAT(run, IsOk());
  run_ = *run;
  for (TestWorker* worker : All()) ASSERT_THAT(worker->Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_FALSE(a_.in_round());
  run_->Unhold();
  Settle();
  EXPECT_EQ(a_.open_round(), 2);
}

TEST_F(HoldTest, ARoundWithoutQuorumAtItsDeadlineShowsAndCountsAsAPause) {
  StartJob();
  a_.Contribute();
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_THAT(observer_.reason(), HasSubstr("deadline has passed with 1 contributed, quorum 2"));
  EXPECT_THAT(observer_.reason(), HasSubstr("waiting for b, c"));
  b_.Contribute();
  Settle();
  EXPECT_EQ(observer_.state(), v1::RUNNING);
  EXPECT_EQ(a_.open_round(), 2);
}

}  // namespace
}  // namespace tally::testing
