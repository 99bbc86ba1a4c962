#include "server/round/job_run.h"

#include <filesystem>

#include "common/base/file.h"
#include "tests/server/round/test_job.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobRunTest, RunsToTheEndWithEqualReplicas) {
  StartJob();
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(*a_.round(), 4);
  EXPECT_EQ(observer_.status().parameters_digest(), DigestToString(a_.digest()));
  EXPECT_EQ(observer_.status().round(), 4);
  EXPECT_EQ(observer_.status().samples(), 4 * 3 * 8);
  EXPECT_EQ(observer_.status().loss(), 0.5);
  EXPECT_EQ(observer_.status().mismatches(), 0);
  EXPECT_EQ(observer_.status().evaluation().correct(), 21);
  EXPECT_EQ(observer_.status().workers(2).contributions(), 4);
  EXPECT_EQ(a_.stop()->state(), v1::SUCCEEDED);
  EXPECT_THAT(*a_.finish(), IsOk());
  EXPECT_TRUE(run_->ended());
}

TEST_F(JobRunTest, BaseIsSentByTheNextOneWhenTheElectedLeaves) {
  Open();
  ASSERT_THAT(a_.Attach(run_), IsOk());
  ASSERT_THAT(b_.Attach(run_), IsOk());
  Settle();
  EXPECT_TRUE(a_.elected());
  EXPECT_FALSE(b_.elected());
  ASSERT_THAT(a_.SendBaseBegin(), IsOk());
  a_.Leave();
  Settle();
  EXPECT_TRUE(b_.elected());
  ASSERT_THAT(a_.Attach(run_), IsOk());
  ASSERT_THAT(c_.Attach(run_), IsOk());
  EXPECT_THAT(c_.SendBaseBegin(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not asked for")));
  b_.SendBase();
  Settle();
  ASSERT_TRUE(a_.in_round());
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(JobRunTest, DamagedBaseIsRefusedAndSentAgain) {
  Open();
  ASSERT_THAT(a_.Attach(run_), IsOk());
  Settle();
  ASSERT_THAT(a_.SendBaseBegin(), IsOk());
  v1::WorkerFrame end;
  end.mutable_base_end()->set_chunks(1);
  EXPECT_THAT(a_.Send(end), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunks are missing")));
  a_.Leave();
  StartJob();
}

TEST_F(JobRunTest, ClosesAtTheDeadlineWithTheQuorumAndNoMessage) {
  StartJob();
  a_.Contribute();
  b_.Contribute();
  clock_.Advance(absl::Milliseconds(9'999));
  run_->OnTimer();
  Settle();
  EXPECT_EQ(*a_.round(), 0);
  clock_.Advance(absl::Milliseconds(1));
  run_->OnTimer();
  Settle();
  EXPECT_EQ(*a_.round(), 1);
  EXPECT_EQ(observer_.status().samples(), 16);
}

TEST_F(JobRunTest, StragglerIsRefusedOnceByNameAndGoesOn) {
  StartJob();
  a_.Contribute();
  b_.Contribute();
  const Bytes late = c_.PayloadOf(0);
  const v1::WorkerFrame chunk = c_.ChunkFrame(0, late);
  const v1::WorkerFrame end = c_.EndFrame();
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(c_.Send(chunk, late), IsOk());
  EXPECT_THAT(c_.Send(end), IsOk());
  Settle();
  EXPECT_THAT(c_.refusals(), ElementsAre(HasSubstr("round 1 is closed")));
  EXPECT_EQ(observer_.refused("late"), 1);
  EXPECT_EQ(c_.open_round(), 2);
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(observer_.status().workers(2).contributions(), 3);
  EXPECT_EQ(observer_.status().workers(2).refused(), 1);
}

TEST_F(JobRunTest, WorkerThatComesBackInTheRoundCountsOnce) {
  spec_.mutable_workers()->set_quorum(3);
  StartJob();
  c_.SendChunks(0, 3);
  c_.Leave();
  a_.Contribute();
  b_.Contribute();
  Settle();
  EXPECT_EQ(a_.open_round(), 1) << "the quorum is not there";
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  ASSERT_EQ(c_.open_round(), 1);
  c_.Contribute();
  Settle();
  EXPECT_EQ(a_.open_round(), 2);
  EXPECT_EQ(observer_.status().samples(), 24);
  FinishJob();
  ExpectEqualReplicas();
}

// A crash may change what a worker computes; that must not cost the job its quorum.
TEST_F(JobRunTest, WorkerThatComesBackWithOtherBytesCounts) {
  spec_.mutable_workers()->set_quorum(3);
  StartJob();
  c_.SendChunks(0, 3);
  c_.Leave();
  c_.salt = 77;
  c_.ForgetParameters();
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_THAT(c_.refusals(), IsEmpty());
}

TEST_F(JobRunTest, ContributionOfAWorkerThatCrashesAfterItIsNotTakenTwice) {
  StartJob();
  c_.Contribute();
  c_.salt = 77;
  ASSERT_THAT(c_.Attach(run_), IsOk());  // replaces the stream
  Settle();
  c_.Contribute();
  a_.Contribute();
  b_.Contribute();
  Settle();
  EXPECT_EQ(observer_.status().samples(), 24);
  EXPECT_THAT(c_.refusals(), IsEmpty());
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(JobRunTest, LateJoinerGetsSnapshotPastRoundsAndTheOpenOne) {
  StartJob();
  c_.Leave();
  a_.Contribute();
  b_.Contribute();
  Settle();
  a_.SendChunks(0, 2);
  b_.SendChunks(0, 2);
  TestWorker late("c", 2);
  ASSERT_THAT(late.Attach(run_), IsOk());
  late.Drain();
  EXPECT_EQ(late.snapshots(), 1);
  EXPECT_EQ(late.past_rounds(), 1);
  EXPECT_EQ(late.open_round(), 2);
  a_.SendChunks(2, 5);
  a_.SendEnd();
  b_.SendChunks(2, 5);
  b_.SendEnd();
  late.Contribute();
  Settle();
  late.Drain();
  EXPECT_EQ(*late.round(), 2);
  EXPECT_EQ(late.digest(), a_.digest());
}

TEST_F(JobRunTest, SlowReaderCatchesUpFromTheLedger) {
  spec_.set_chunk_elements(0);
  spec_.set_rounds(6);  // more than are run: the end of a job tells everybody to stop
  spec_.mutable_method()->set_name("global_lion");
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.weight", {6'000'000});  // 24 MB a round
  const Layout layout = *builder.Build();
  TestWorker a("a", 0, layout);
  TestWorker b("b", 1, layout);
  TestWorker slow("c", 2, layout);
  Open();
  for (TestWorker* worker : {&a, &b, &slow}) ASSERT_THAT(worker->Attach(run_), IsOk());
  a.Drain();
  a.SendBase();
  for (TestWorker* worker : {&slow, &b, &a}) worker->Drain();
  for (TestWorker* worker : {&slow, &b, &a}) worker->Drain();
  for (uint64_t round = 1; round <= 4; ++round) {
    ASSERT_EQ(a.open_round(), round);
    b.Drain();
    a.Contribute();
    b.Contribute();
    clock_.Advance(absl::Seconds(10));
    run_->OnTimer();
    a.Drain();
    b.Drain();
  }
  EXPECT_THAT(observer_.events(), HasSubstr("c: reads too slowly"));
  slow.Drain();
  EXPECT_EQ(slow.past_rounds(), 1) << "the others were sent live";
  EXPECT_EQ(*slow.round(), 4);
  EXPECT_EQ(slow.digest(), a.digest());
}

TEST_F(JobRunTest, WorkerThatDiffersIsToldAndGetsASnapshot) {
  StartJob();
  c_.SpoilParameters();
  PlayRound();
  ASSERT_TRUE(observer_.WaitForEvent("c: round 1: parameters differ from the ledger's in block a: "));
  Settle();
  ASSERT_TRUE(c_.finish().has_value());
  EXPECT_THAT(*c_.finish(), StatusIs(absl::StatusCode::kAborted, HasSubstr("parameters differ")));
  EXPECT_EQ(observer_.status().mismatches(), 1);
  ASSERT_THAT(c_.Attach(run_), IsOk());  // says that it has parameters
  Settle();
  EXPECT_EQ(c_.snapshots(), 1 + 1) << "one when it joined, one now";
  ExpectEqualReplicas();
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(observer_.status().mismatches(), 1);
}

TEST_F(JobRunTest, DamagedChunkIsLeftOutAndTheOthersGoOn) {
  StartJob();
  Bytes payload = c_.PayloadOf(1);
  const v1::WorkerFrame frame = c_.ChunkFrame(1, payload);
  payload[3] ^= 1;
  EXPECT_THAT(c_.Send(frame, payload), IsOk());
  c_.SendChunks(2, 5);
  c_.SendEnd();
  a_.Contribute();
  b_.Contribute();
  Settle();
  EXPECT_THAT(c_.refusals(), ElementsAre(HasSubstr("chunk 1: digest")));
  EXPECT_EQ(observer_.refused("damaged"), 1);
  EXPECT_EQ(observer_.refused("late"), 0);
  EXPECT_EQ(observer_.status().workers(2).refused(), 1);
  EXPECT_EQ(observer_.status().samples(), 16);
  EXPECT_EQ(a_.open_round(), 2);
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(JobRunTest, PayloadWithPaddingBitsSetIsLeftOut) {
  StartJob();
  Bytes payload = c_.PayloadOf(2);  // 44 elements in a lane of 64
  payload.back() |= 0x80;
  EXPECT_THAT(c_.Send(c_.ChunkFrame(2, payload), payload), IsOk());
  Settle();
  EXPECT_EQ(observer_.refused("damaged"), 1);
  EXPECT_THAT(c_.refusals(), ElementsAre(HasSubstr("chunk 2")));
}

TEST_F(JobRunTest, ChunkOffTheGridIsLeftOut) {
  StartJob();
  const Bytes payload = c_.PayloadOf(0);
  EXPECT_THAT(c_.Send(c_.ChunkFrame(5, payload), payload), IsOk());
  Settle();
  EXPECT_THAT(c_.refusals(), ElementsAre(HasSubstr("below 5")));
}

TEST_F(JobRunTest, JobFailsWhenAllAbstain) {
  StartJob();
  a_.Abstain("overflow");
  b_.Abstain("overflow");
  Settle();
  EXPECT_EQ(observer_.state(), v1::FAILED);
  EXPECT_THAT(observer_.reason(), HasSubstr("round 1: 2 of 3 contributions cannot be used"));
  EXPECT_THAT(observer_.reason(), HasSubstr("the last one: b: overflow"));
  EXPECT_THAT(observer_.events(), HasSubstr("overflow"));
  EXPECT_EQ(c_.stop()->state(), v1::FAILED);
}

TEST_F(JobRunTest, PausesBelowTheMinimumAndResumes) {
  StartJob();
  b_.Leave();
  c_.Leave();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_THAT(observer_.reason(), HasSubstr("1 attached, minimum 2"));
  clock_.Advance(absl::Seconds(59));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  ASSERT_THAT(b_.Attach(run_), IsOk());
  Settle();
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::RUNNING);
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(JobRunTest, FailsAfterThePauseLimit) {
  StartJob();
  b_.Leave();
  c_.Leave();
  clock_.Advance(absl::Seconds(60));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::FAILED);
  EXPECT_THAT(observer_.reason(), HasSubstr("pause limit of 1m reached"));
  Settle();
  EXPECT_EQ(a_.stop()->state(), v1::FAILED);
}

TEST_F(JobRunTest, WaitsForItsFirstRoundNoLongerThanThePauseLimit) {
  Open();
  run_->OnTimer();
  clock_.Advance(absl::Seconds(60));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::FAILED);
}

TEST_F(JobRunTest, CancelWhileWaitingAndWhileRunning) {
  Open();
  run_->Cancel("enough");
  EXPECT_EQ(observer_.state(), v1::CANCELLED);
  ASSERT_THAT(a_.Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(a_.stop()->state(), v1::CANCELLED) << "who comes too late is told";
}

TEST_F(JobRunTest, CancelWhileRunning) {
  StartJob();
  a_.SendChunks(0, 2);
  run_->Cancel("enough");
  Settle();
  for (const TestWorker* worker : {&a_, &b_, &c_}) {
    EXPECT_EQ(worker->stop()->state(), v1::CANCELLED);
    EXPECT_EQ(worker->stop()->reason(), "enough");
  }
  run_->Fail("too late");
  EXPECT_EQ(observer_.state(), v1::CANCELLED);
}

TEST_F(JobRunTest, CancelWhileFinalizing) {
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->reports = false;  // so it waits for reports
  StartJob();
  while (a_.in_round()) PlayRound();
  EXPECT_EQ(observer_.state(), v1::FINALIZING);
  run_->Cancel("enough");
  EXPECT_EQ(observer_.state(), v1::CANCELLED);
}

TEST_F(JobRunTest, ReportsThatDoNotComeAreWaitedForOneDeadlineLong) {
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->reports = false;
  StartJob();
  while (a_.in_round()) PlayRound();
  ASSERT_TRUE(observer_.WaitForDigestOf(4));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::FINALIZING);
  clock_.Advance(absl::Seconds(10));
  run_->OnTimer();
  EXPECT_TRUE(observer_.WaitFor(v1::SUCCEEDED));
}

TEST_F(JobRunTest, RefusesAnotherLayoutAndStrangers) {
  StartJob();
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.weight", {299});
  TestWorker other("c", 2, *builder.Build());
  EXPECT_THAT(other.Attach(run_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout digest: expected")));
  TestWorker stranger("x", 3);
  EXPECT_THAT(stranger.Attach(run_),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("worker x")));
  FinishJob();
}

TEST_F(JobRunTest, LayoutThatIsNotItsDigestsIsNotTakenForTheJobs) {
  Open();
  v1::Attach attach;
  attach.set_worker("a");
  attach.set_layout_digest(1);
  *attach.mutable_layout() = FiveChunks().ToProto();
  EXPECT_THAT(a_.AttachWith(run_, attach),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layout digest")));
  StartJob();
}

// The ledger's folder is out of the way, as with a disk that went away: rounds stop and go on.
TEST_F(JobRunTest, LedgerThatCannotBeWrittenPausesTheJobAndNothingIsLost) {
  StartJob();  // the first segment is made with the first round
  const std::string ledger = folder_.File("job/ledger");
  std::filesystem::rename(ledger, ledger + ".away");
  PlayRound();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_THAT(observer_.reason(), HasSubstr("ledger"));
  run_->OnTimer();
  EXPECT_EQ(observer_.state(), v1::PAUSED);
  EXPECT_EQ(*a_.round(), 0) << "nothing is announced that is not written";
  std::filesystem::rename(ledger + ".away", ledger);
  run_->OnTimer();
  Settle();
  EXPECT_EQ(*a_.round(), 1);
  FinishJob();
  ExpectEqualReplicas();
}

// Who catches up while a round closes is not thrown into it.
TEST_F(JobRunTest, WorkerThatCatchesUpWhileARoundClosesWaitsForItsEnd) {
  StartJob();
  c_.Leave();
  const std::string ledger = folder_.File("job/ledger");
  std::filesystem::rename(ledger, ledger + ".away");
  a_.Contribute();
  b_.Contribute();
  ASSERT_THAT(c_.Attach(run_), IsOk());
  Settle();
  EXPECT_FALSE(c_.in_round());
  std::filesystem::rename(ledger + ".away", ledger);
  run_->OnTimer();
  Settle();
  EXPECT_EQ(c_.open_round(), 2);
  FinishJob();
  ExpectEqualReplicas();
}

TEST_F(JobRunTest, ResultThatCannotBeWrittenIsTriedAgain) {
  StartJob();
  const std::string snapshots = folder_.File("job/snapshots");
  std::filesystem::rename(snapshots, snapshots + ".away");
  ASSERT_THAT(WriteFileAtomically(snapshots, "in the way"), IsOk());
  while (a_.in_round()) PlayRound();
  ASSERT_TRUE(observer_.WaitForEvent("snapshot of round 4"));
  EXPECT_EQ(observer_.state(), v1::FINALIZING);
  std::filesystem::remove(snapshots);
  std::filesystem::rename(snapshots + ".away", snapshots);
  clock_.Advance(absl::Seconds(1));
  run_->OnTimer();
  EXPECT_TRUE(observer_.WaitFor(v1::SUCCEEDED)) << observer_.events();
}

TEST_F(JobRunTest, DroppedWorkerIsToldAndNotWaitedFor) {
  StartJob();
  run_->Drop("c");
  a_.Contribute();
  b_.Contribute();
  Settle();
  EXPECT_THAT(*c_.finish(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lease")));
  EXPECT_EQ(a_.open_round(), 2);
}

TEST_F(RestartTest, GoesOnWithTheRightRoundToTheSameResult) {
  const uint64_t expected = Uninterrupted().Digest();
  StartJob();
  PlayRound();
  a_.SendChunks(0, 5);
  Restart();
  EXPECT_EQ(a_.open_round(), 2);
  EXPECT_EQ(observer_.status().workers(0).contributions(), 1) << "counts go on";
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(a_.digest(), expected);
  EXPECT_EQ(observer_.status().samples(), 4 * 3 * 8);
}

TEST_F(RestartTest, AfterAllRoundsTheResultIsStillWritten) {
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->reports = false;
  StartJob();
  while (a_.in_round()) PlayRound();
  run_.reset();
  a_.Leave();
  b_.Leave();
  c_.Leave();
  Open();
  EXPECT_TRUE(observer_.WaitFor(v1::SUCCEEDED)) << observer_.events();
  EXPECT_EQ(observer_.status().parameters_digest(), DigestToString(a_.digest()));
}

// The workers are ahead of the ledger then and hold nothing: they get a snapshot.
TEST_F(RestartTest, TornTailOfTheLedgerCostsItsRoundsAlone) {
  const uint64_t expected = Uninterrupted().Digest();
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->holds_rounds = false;
  StartJob();
  PlayRound();
  PlayRound();
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->Leave();
  run_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("job/ledger"))) {
    std::filesystem::resize_file(entry.path(), entry.file_size() - 3);
  }
  Open();
  EXPECT_THAT(observer_.events(), HasSubstr("ledger: cut off"));
  for (TestWorker* worker : {&a_, &b_, &c_}) ASSERT_THAT(worker->Attach(run_), IsOk());
  Settle();
  EXPECT_EQ(a_.open_round(), 2);
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(a_.digest(), expected);
}

TEST_F(RestartTest, SnapshotAheadOfATornLedgerIsNotUsed) {
  spec_.set_snapshot_every(1);
  const uint64_t expected = Uninterrupted().Digest();
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->holds_rounds = false;
  StartJob();
  PlayRound();
  PlayRound();
  ASSERT_TRUE(observer_.WaitForDigestOf(2));
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->Leave();
  run_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("job/ledger"))) {
    std::filesystem::resize_file(entry.path(), entry.file_size() - 3);
  }
  for (TestWorker* worker : {&a_, &b_, &c_}) worker->salt = 5;  // round 2 becomes another one
  Open();
  EXPECT_THAT(observer_.events(), HasSubstr("snapshot of round 2 removed"));
  for (TestWorker* worker : {&a_, &b_, &c_}) ASSERT_THAT(worker->Attach(run_), IsOk());
  Settle();
  FinishJob();
  ExpectEqualReplicas();
  EXPECT_EQ(observer_.status().mismatches(), 0);
  EXPECT_NE(a_.digest(), expected);
  EXPECT_EQ(observer_.status().parameters_digest(), DigestToString(a_.digest()));
}

}  // namespace
}  // namespace tally::testing
