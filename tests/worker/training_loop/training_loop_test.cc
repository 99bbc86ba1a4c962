// One worker's part in a job, broken off and taken up again: the rounds are those of a worker that
// was never interrupted.
#include "worker/training_loop.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/rpc/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/idx_files.h"
#include "tests/worker/training_loop/fake_server.h"

namespace tally {
namespace {

using ::tally::testing::FakeServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kRounds = 9;
constexpr char kMlp[] = R"({"input_size": 6, "hidden_sizes": [16, 8], "num_labels": 3})";

class TrainingLoopTest : public ::testing::Test {
 protected:
  TrainingLoopTest() {
    data_.WriteSplit("train", 24);
    data_.WriteSplit("t10k", 9);
    assignment_.set_job_id("job-1");
    assignment_.set_job_key(77);
    assignment_.set_count(1);
    v1::JobSpec* spec = assignment_.mutable_spec();
    spec->mutable_model()->set_architecture("mlp");
    spec->mutable_model()->set_config_json(kMlp);
    spec->mutable_method()->set_name("distributed_lion");
    spec->mutable_data()->set_name("tiny");
    spec->mutable_data()->set_shuffle_buffer(8);
    spec->set_batch_size(4);
    spec->set_seed(42);
  }

  std::unique_ptr<TrainingLoop> MakeLoop(const FakeServer& server, const std::string& state) {
    TrainingOptions options;
    options.channel = *CreateChannel(server.address(), {});
    options.assignment = assignment_;
    options.worker = "worker-0";
    options.data = {"idx", data_.path()};
    options.shared_data = true;
    options.state_folder = state;
    options.checkpoint_every = checkpoint_every_;
    options.report = [this](const std::string& level, const std::string& message) {
      reports_.push_back(level + ": " + message);
    };
    absl::StatusOr<std::unique_ptr<TrainingLoop>> loop = TrainingLoop::Create(std::move(options));
    EXPECT_TRUE(loop.ok()) << loop.status();
    return *std::move(loop);
  }
  // From its start, or its checkpoint, to the job's end.
  void RunToEnd(FakeServer& server) {
    const auto loop = MakeLoop(server, state_.path());
    TALLY_EXPECT_OK(loop->Run());
  }
  // The rounds of a job that nothing happens to.
  std::vector<std::string> Undisturbed() {
    FakeServer server(kRounds);
    server.Start();
    assignment_.clear_contributions();
    const testing::Folder state;
    TALLY_EXPECT_OK(MakeLoop(server, state.path())->Run());
    reports_.clear();
    return server.LedgerDigests();
  }
  // Runs until the worker's contribution to `round` has come in, which is not closed, and `leave`.
  void RunUntilContribution(FakeServer& server, uint64_t round,
                            const std::function<void(TrainingLoop&)>& leave) {
    absl::Notification contributed;
    server.on_contribution[round] = [&](FakeServer::Stream* stream) {
      contributed.Notify();
      v1::WorkerFrame frame;
      while (stream->Read(&frame)) continue;
      return grpc::Status(grpc::StatusCode::CANCELLED, "the worker has left");
    };
    if (server.address().empty()) server.Start();
    const auto loop = MakeLoop(server, state_.path());
    absl::Status status;
    std::thread runner([&] { status = loop->Run(); });
    contributed.WaitForNotification();
    leave(*loop);
    runner.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  }
  static void Stop(TrainingLoop& loop) { loop.Stop(); }
  static void Release(TrainingLoop& loop) { loop.Cancel(); }

  std::string Checkpoint() const {
    return state_.path() + "/jobs/job-1/checkpoint.safetensors";
  }
  bool HasCheckpoint() const { return ReadFile(Checkpoint()).ok(); }
  // The last digests that the worker sent are those of the fold.
  static void ExpectDigests(const FakeServer& server) {
    ASSERT_FALSE(server.digests.empty());
    for (const v1::ParametersDigest& found : server.digests) {
      const std::vector<float> parameters = server.ParametersAfter(found.round());
      EXPECT_EQ(found.digest(), ParametersDigest(server.layout(), parameters)) << found.round();
      EXPECT_EQ(std::vector<uint64_t>(found.blocks().begin(), found.blocks().end()),
                BlockDigests(server.layout(), parameters));
    }
  }

  testing::Folder data_;
  testing::Folder state_;
  v1::Assignment assignment_;
  absl::Duration checkpoint_every_ = absl::Hours(1);
  std::vector<std::string> reports_;
};

TEST_F(TrainingLoopTest, TheSameJobTwiceGivesTheSameRounds) {
  FakeServer server(kRounds);
  server.Start();
  RunToEnd(server);
  EXPECT_EQ(server.LedgerDigests(), Undisturbed());
  ExpectDigests(server);
  EXPECT_EQ(server.evaluations.size(), 1u);
  EXPECT_THAT(reports_, IsEmpty());
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(TrainingLoopTest, StoppedAndStartedAgainItGoesOnAsIfNothingHadBeen) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 5, Stop);
  EXPECT_TRUE(HasCheckpoint());
  assignment_.set_contributions(4);
  RunToEnd(server);
  EXPECT_EQ(server.LedgerDigests(), Undisturbed());
  ExpectDigests(server);
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(TrainingLoopTest, ARestartAttachesWhereItWasAndSaysSo) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 5, Stop);
  EXPECT_THAT(reports_, IsEmpty());
  RunToEnd(server);
  ASSERT_EQ(server.attaches.size(), 2u);
  EXPECT_TRUE(server.attaches[1].has_parameters());
  EXPECT_EQ(server.attaches[1].round(), 4u);
  EXPECT_EQ(server.attaches[1].history(), server.ledger[3].closed.history());
  EXPECT_EQ(server.attaches[1].first_held(), 0u);
  EXPECT_THAT(reports_, ElementsAre("info: resumes from its checkpoint of round 4: momentum, data "
                                    "position 5"));
}

TEST_F(TrainingLoopTest, AnyNumberOfStopsChangesNothing) {
  FakeServer server(kRounds);
  for (uint64_t round = 1; round <= kRounds; ++round) RunUntilContribution(server, round, Stop);
  RunToEnd(server);
  EXPECT_EQ(server.LedgerDigests(), Undisturbed());
  ExpectDigests(server);
}

TEST_F(TrainingLoopTest, WithASnapshotInsteadOfRoundsMomentumAndPositionAreStillUsed) {
  FakeServer server(kRounds);
  server.sends_snapshots = true;
  RunUntilContribution(server, 5, Stop);
  RunToEnd(server);
  EXPECT_EQ(server.LedgerDigests(), Undisturbed());
  ExpectDigests(server);
}

// As after a kill: what is on the disk is not the last state. Batches whose contributions counted
// since then are not used again.
TEST_F(TrainingLoopTest, AnOlderCheckpointCatchesUp) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 3, Stop);
  const std::string kept = *ReadFile(Checkpoint());
  RunUntilContribution(server, 7, Stop);
  TALLY_ASSERT_OK(WriteFileAtomically(Checkpoint(), kept));
  reports_.clear();
  assignment_.set_contributions(6);
  RunToEnd(server);
  ASSERT_EQ(server.attaches.size(), 3u);
  EXPECT_TRUE(server.attaches[2].has_parameters());
  EXPECT_EQ(server.attaches[2].round(), 2u);
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("of round 2: momentum, data position 6")));
  ExpectDigests(server);
  EXPECT_EQ(server.ledger.size(), kRounds);
}

TEST_F(TrainingLoopTest, WithoutACheckpointMomentumIsZeroAndThatIsSaid) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 5, Stop);
  TALLY_ASSERT_OK(RemoveTree(Checkpoint()));
  assignment_.set_contributions(4);
  RunToEnd(server);
  EXPECT_FALSE(server.attaches[1].has_parameters());
  EXPECT_THAT(reports_,
              ElementsAre("warning: starts without a checkpoint at round 5: momentum zero, data "
                          "position 4"));
  ExpectDigests(server);
}

TEST_F(TrainingLoopTest, ADamagedCheckpointIsAsNone) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 5, Stop);
  std::string bytes = *ReadFile(Checkpoint());
  bytes[bytes.size() / 2] ^= 4;
  TALLY_ASSERT_OK(WriteFileAtomically(Checkpoint(), bytes));
  assignment_.set_contributions(4);
  RunToEnd(server);
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("momentum zero, data position 4")));
  ExpectDigests(server);
}

TEST_F(TrainingLoopTest, AnotherJobsCheckpointIsAsNone) {
  FakeServer server(kRounds);
  RunUntilContribution(server, 5, Stop);
  assignment_.set_job_key(78);
  RunToEnd(server);
  EXPECT_FALSE(server.attaches[1].has_parameters());
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("starts without a checkpoint at round 5")));
}

TEST_F(TrainingLoopTest, AReleasedWorkerKeepsNothing) {
  FakeServer server(kRounds);
  checkpoint_every_ = absl::ZeroDuration();
  RunUntilContribution(server, 5, Release);
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(TrainingLoopTest, OffWritesNoCheckpoint) {
  FakeServer server(kRounds);
  checkpoint_every_ = absl::InfiniteDuration();
  RunUntilContribution(server, 5, Stop);
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(TrainingLoopTest, RoundsThatTheServerHasLostAreHandedBack) {
  FakeServer server(kRounds);
  server.synced_round = 2;
  std::vector<std::string> lost;
  server.on_contribution[7] = [&](FakeServer::Stream*) {
    lost = server.LedgerDigests();
    server.ledger.resize(4);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the machine has crashed");
  };
  server.Start();
  RunToEnd(server);
  ASSERT_EQ(server.attaches.size(), 2u);
  EXPECT_EQ(server.attaches[1].round(), 6u);
  EXPECT_EQ(server.attaches[1].first_held(), 3u);
  EXPECT_EQ(server.handed_back, 2u);
  const std::vector<std::string> now = server.LedgerDigests();
  EXPECT_EQ(std::vector<std::string>(now.begin(), now.begin() + 6), lost);
  EXPECT_EQ(now, Undisturbed());
  ExpectDigests(server);
}

// The server goes on without the lost rounds: this worker's parameters are not the ledger's.
TEST_F(TrainingLoopTest, RoundsThatAreDoneAgainCostASnapshotAndNotTheWorker) {
  FakeServer server(kRounds);
  server.asks_for_lost_rounds = false;
  server.on_contribution[7] = [&](FakeServer::Stream*) {
    server.ledger.resize(4);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the machine has crashed");
  };
  server.Start();
  RunToEnd(server);
  EXPECT_FALSE(server.attaches.back().has_parameters());
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("round 5 is open, but this worker is at 6")));
  EXPECT_EQ(server.ledger.size(), kRounds);
  server.digests.erase(server.digests.begin(), server.digests.begin() + 6);
  ExpectDigests(server);
}

// The rounds before are not those that the worker has; its parameters need not differ.
TEST_F(TrainingLoopTest, ARoundOfAnotherHistoryIsNotTaken) {
  FakeServer server(kRounds);
  server.on_contribution[5] = [&](FakeServer::Stream*) {
    server.ledger[3].closed.set_history(1);
    return grpc::Status::OK;
  };
  server.Start();
  RunToEnd(server);
  ASSERT_EQ(server.attaches.size(), 2u);
  EXPECT_EQ(server.attaches[1].round(), 4u);
  EXPECT_NE(server.attaches[1].history(), 1u);
  EXPECT_EQ(server.attaches[1].first_held(), 1u);
  EXPECT_EQ(server.ledger.size(), kRounds);
  ExpectDigests(server);
}

TEST_F(TrainingLoopTest, AWorkerThatJoinedLaterSharesRowsAndEvaluatesNone) {
  assignment_.set_index(5);
  assignment_.set_count(2);
  FakeServer server(kRounds);
  server.Start();
  RunToEnd(server);
  EXPECT_EQ(server.ledger.size(), kRounds);
  ASSERT_EQ(server.evaluations.size(), 1u);
  EXPECT_EQ(server.evaluations[0].count(), 0u) << "others have the whole test split";
  ExpectDigests(server);
}

}  // namespace
}  // namespace tally
