// What a worker is sent that was away: the rounds that it missed, or a snapshot where that is less or
// where the rounds are no longer kept.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/round/test_job.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

class CatchUpTest : public RestartTest {
 protected:
  CatchUpTest() {
    spec_.set_rounds(20);
    spec_.set_snapshot_every(8);
  }
  JobRunOptions OptionsThatKeep(const LedgerKeep& keep) {
    JobRunOptions options = Options();
    options.keep = keep;
    return options;
  }
  void OpenWith(const LedgerKeep& keep) {
    auto run = JobRun::Open(OptionsThatKeep(keep), {std::shared_ptr<void>(), &observer_});
    ASSERT_THAT(run, IsOk());
    run_ = *std::move(run);
  }
  void StartAll() {
    for (TestWorker* worker : All()) ASSERT_THAT(worker->Attach(run_), IsOk());
    Settle();
    a_.SendBase();
    Settle();
  }
  // Without c.
  void PlayRounds(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      a_.Contribute();
      b_.Contribute();
      Settle();
    }
  }
};

// 500 parameters are 2000 bytes; a round of them is about 300.
TEST_F(CatchUpTest, FewRoundsAreSentAsRounds) {
  StartJob();
  c_.Leave();
  PlayRounds(3);
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(c_.past_rounds(), 3);
  EXPECT_EQ(c_.snapshots(), 1) << "that of the start";
  EXPECT_EQ(c_.digest(), a_.digest());
}

TEST_F(CatchUpTest, ManyRoundsAreReplacedByASnapshotThatIsLess) {
  StartJob();
  c_.Leave();
  PlayRounds(10);
  ASSERT_TRUE(observer_.WaitForDigestOf(10)) << "the snapshot of round 8 is there";
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(c_.snapshots(), 2);
  EXPECT_EQ(c_.past_rounds(), 2) << "9 and 10";
  EXPECT_EQ(c_.digest(), a_.digest());
  PlayRound();
  ExpectEqualReplicas();
}

TEST_F(CatchUpTest, WorkerWhoseRoundsAreNoLongerKeptGetsASnapshot) {
  OpenWith({.keep_rounds = 1, .segment_bytes = 1, .keep_snapshots = 1});
  StartAll();
  PlayRound();
  c_.Leave();
  PlayRounds(9);
  ASSERT_TRUE(observer_.WaitForDigestOf(10));
  EXPECT_EQ(observer_.status().first_kept_round(), 8) << "the snapshot's own record stays";
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  EXPECT_THAT(observer_.events(), HasSubstr("c: is at round 1 of rounds that are not the ledger's"));
  EXPECT_EQ(c_.past_rounds(), 2);
  EXPECT_EQ(c_.digest(), a_.digest());
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(CatchUpTest, RoundsThatAreForgottenWhileTheyAreReadAreReplacedByASnapshot) {
  OpenWith({.keep_rounds = 1, .segment_bytes = 1, .keep_snapshots = 1});
  StartAll();
  c_.Leave();
  PlayRounds(10);
  ASSERT_TRUE(observer_.WaitForDigestOf(10));
  ASSERT_THAT(c_.Attach(run_), IsOk());  // the base is everybody's: it is sent rounds from 1 on
  Settle();
  EXPECT_EQ(c_.snapshots(), 2);
  EXPECT_EQ(c_.past_rounds(), 2);
  EXPECT_EQ(c_.digest(), a_.digest());
}

TEST_F(CatchUpTest, AServerWhoseFirstRoundsAreGoneTakesItsJobUpAgain) {
  const LedgerKeep keep = {.keep_rounds = 1, .segment_bytes = 1, .keep_snapshots = 1};
  OpenWith(keep);
  StartAll();
  for (int i = 0; i < 10; ++i) PlayRound();
  ASSERT_TRUE(observer_.WaitForDigestOf(10));
  Stop();
  OpenWith(keep);
  c_.ForgetParameters();
  for (TestWorker* worker : All()) ASSERT_THAT(worker->Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(c_.digest(), a_.digest());
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(observer_.status().parameters_digest(), DigestToString(a_.digest()));
}

}  // namespace
}  // namespace tally::testing
