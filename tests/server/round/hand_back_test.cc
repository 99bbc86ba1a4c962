// A ledger that has lost its tail with the machine, and workers that still hold those rounds.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/round/test_job.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HandBackTest : public RestartTest {
 protected:
  // `rounds` were played, the ledger has lost all but `kept`, and the server is up again.
  void LoseAllBut(int kept, int rounds) {
    StartJob();
    for (int i = 0; i < rounds; ++i) PlayRound();
    Stop();
    CutLedgerAfter(static_cast<uint64_t>(kept));
    Open();
  }
  void Attach(TestWorker& worker) {
    ASSERT_THAT(worker.Attach(run_), IsOk());
    Settle();
  }
};

TEST_F(HandBackTest, RoundsComeBackFromOneWorkerAndAreNotDoneAgain) {
  const uint64_t expected = Uninterrupted().Digest();
  LoseAllBut(1, 3);
  EXPECT_THAT(observer_.events(), HasSubstr("ledger: cut off 30 bytes"));
  for (TestWorker* worker : All()) worker->salt = 99;  // a round done again would be another one
  Attach(a_);
  EXPECT_EQ(a_.handed_back(), 2);
  EXPECT_THAT(a_.hand_back_status(), IsOk());
  EXPECT_THAT(observer_.events(), HasSubstr("a: hands back rounds 2 to 3"));
  for (TestWorker* worker : All()) worker->salt = 0;
  Attach(b_);
  Attach(c_);
  EXPECT_EQ(b_.handed_back() + c_.handed_back() + b_.past_rounds() + c_.past_rounds(), 0);
  EXPECT_EQ(b_.snapshots(), 1) << "that of the start";
  EXPECT_EQ(a_.open_round(), 4);
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(a_.digest(), expected);
  EXPECT_EQ(observer_.status().mismatches(), 0);
}

TEST_F(HandBackTest, TheNextRoundWaitsForWhoMayHoldTheLostOnes) {
  LoseAllBut(1, 2);
  b_.ForgetParameters();
  c_.ForgetParameters();
  Attach(b_);
  Attach(c_);
  EXPECT_FALSE(b_.in_round());
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_THAT(observer_.reason(), HasSubstr("waiting for a"));
  Attach(a_);
  EXPECT_EQ(a_.handed_back(), 1);
  EXPECT_EQ(b_.open_round(), 3);
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(HandBackTest, ItWaitsOneDeadlineLongThenTheRoundsAreDoneAgain) {
  LoseAllBut(1, 2);
  b_.ForgetParameters();
  c_.ForgetParameters();
  Attach(b_);
  Attach(c_);
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  Settle();
  EXPECT_EQ(b_.open_round(), 2);
  Attach(a_);
  EXPECT_EQ(a_.handed_back(), 0);
  EXPECT_EQ(a_.snapshots(), 1);
  EXPECT_THAT(observer_.events(), HasSubstr("a: is at round 2, the ledger at 1: gets a snapshot"));
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(HandBackTest, AWorkerWhoseRoundsWereDoneAgainIsFoundByItsHistory) {
  LoseAllBut(1, 2);
  for (TestWorker* worker : All()) worker->salt = 99;
  b_.ForgetParameters();
  c_.ForgetParameters();
  Attach(b_);
  Attach(c_);
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  Settle();
  for (TestWorker* worker : {&b_, &c_}) worker->Contribute();
  Settle();
  ASSERT_EQ(b_.open_round(), 3);
  Attach(a_);  // at round 2, as the ledger is, but another round 2
  EXPECT_EQ(a_.snapshots(), 1);
  EXPECT_THAT(observer_.events(), HasSubstr("a: is at round 2 of rounds that are not the ledger's"));
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(observer_.status().mismatches(), 0);
}

TEST_F(HandBackTest, AHeldRoundThatWasSpoiledIsRefusedAndAnotherWorkerAsked) {
  const uint64_t expected = Uninterrupted().Digest();
  LoseAllBut(1, 2);
  a_.SpoilHeldRound(2);
  Attach(a_);
  EXPECT_EQ(a_.hand_back_status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(a_.hand_back_status().message(), HasSubstr("round 2"));
  a_.Leave();
  a_.ForgetParameters();  // as a worker does when it is told ABORTED
  Attach(b_);
  Attach(c_);
  Attach(a_);
  EXPECT_EQ(b_.handed_back(), 1);
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(a_.digest(), expected);
}

TEST_F(HandBackTest, AWorkerThatHangsInItIsGivenUpAndTheNextOneAsked) {
  LoseAllBut(1, 2);
  a_.hangs_in_hand_back = true;
  Attach(a_);
  Attach(b_);
  Attach(c_);
  EXPECT_EQ(b_.handed_back(), 0);
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  Settle();
  EXPECT_EQ(a_.finish()->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(b_.handed_back() + c_.handed_back(), 1);
  EXPECT_EQ(b_.open_round(), 3);
}

TEST_F(HandBackTest, EachHandsBackWhatTheLedgerStillLacks) {
  StartJob();
  PlayRound();
  PlayRound();
  b_.Leave();
  for (TestWorker* worker : {&a_, &c_}) worker->Contribute();
  Settle();
  ASSERT_EQ(a_.round(), 3);
  Stop();
  CutLedgerAfter(1);
  Open();
  Attach(b_);
  EXPECT_EQ(b_.handed_back(), 1);
  EXPECT_FALSE(b_.in_round()) << "the last round's voters may hold more";
  Attach(a_);
  EXPECT_EQ(a_.handed_back(), 1);
  EXPECT_EQ(a_.snapshots(), 0);
  Attach(c_);
  EXPECT_EQ(c_.handed_back() + c_.past_rounds(), 0);
  EXPECT_EQ(b_.open_round(), 4);
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(HandBackTest, ALeavingWorkerThatWasAskedMakesRoomForTheNext) {
  LoseAllBut(1, 2);
  a_.hangs_in_hand_back = true;
  Attach(a_);
  Attach(b_);
  a_.Leave();
  Settle();
  EXPECT_EQ(b_.handed_back(), 1);
}

TEST_F(HandBackTest, ARoundThatNobodyAskedForIsRefused) {
  StartJob();
  v1::WorkerFrame frame;
  frame.mutable_past_round()->set_round(2);
  EXPECT_THAT(a_.Send(frame), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
  frame.mutable_closed()->set_round(1);
  EXPECT_THAT(b_.Send(frame), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
}

TEST_F(HandBackTest, WithNothingLostNobodyIsAsked) {
  StartJob();
  PlayRound();
  Restart();
  EXPECT_THAT(observer_.events(), Not(HasSubstr("hands back")));
  EXPECT_EQ(a_.open_round(), 2);
}

}  // namespace
}  // namespace tally::testing
