#include "worker/checkpoint/checkpoint_saver.h"

#include <sys/resource.h>

#include <csignal>
#include <vector>

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"
#include "tests/worker/checkpoint/test_checkpoint.h"

namespace tally {
namespace {

using ::tally::testing::FullCheckpoint;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class CheckpointSaverTest : public ::testing::Test {
 protected:
  std::unique_ptr<CheckpointSaver> Make(absl::Duration every) {
    return std::make_unique<CheckpointSaver>(
        folder_, every,
        [this](const std::string& level, const std::string& message) {
          reports_.push_back(level + ": " + message);
        },
        &clock_);
  }
  // Of the file there is; 0 if there is none.
  uint64_t RoundOnDisk() {
    const std::optional<JobCheckpoint> read = folder_.Load(FullCheckpoint().key);
    return read.has_value() ? read->round : 0;
  }
  JobCheckpoint OfRound(uint64_t round) {
    JobCheckpoint checkpoint = FullCheckpoint();
    checkpoint.round = round;
    return checkpoint;
  }

  testing::TempFolder state_;
  const CheckpointFolder folder_ = *CheckpointFolder::Of(state_.path(), "job-1");
  ManualClock clock_;
  std::vector<std::string> reports_;
};

TEST_F(CheckpointSaverTest, IsDueOnceAnInterval) {
  const auto saver = Make(absl::Seconds(60));
  EXPECT_FALSE(saver->Due());
  clock_.Advance(absl::Seconds(59));
  EXPECT_FALSE(saver->Due());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(saver->Due());
  saver->Save(OfRound(7));
  saver->Wait();
  EXPECT_EQ(RoundOnDisk(), 7u);
  EXPECT_FALSE(saver->Due());
  clock_.Advance(absl::Seconds(60));
  EXPECT_TRUE(saver->Due());
}

TEST_F(CheckpointSaverTest, AStopDoesNotWaitForTheInterval) {
  const auto saver = Make(absl::Seconds(60));
  saver->SaveNow(OfRound(3));
  EXPECT_EQ(RoundOnDisk(), 3u);
  saver->SaveNow(OfRound(4));
  EXPECT_EQ(RoundOnDisk(), 4u);
}

TEST_F(CheckpointSaverTest, OffWritesNothing) {
  const auto saver = Make(absl::InfiniteDuration());
  clock_.Advance(absl::Hours(10000));
  EXPECT_FALSE(saver->Due());
  saver->SaveNow(OfRound(3));
  EXPECT_THAT(state_.Names(), IsEmpty());
}

TEST_F(CheckpointSaverTest, TheOneAtWorkIsWholeBeforeTheObjectGoes) {
  auto saver = Make(absl::ZeroDuration());
  saver->Save(OfRound(9));
  saver.reset();
  EXPECT_EQ(RoundOnDisk(), 9u);
}

// The place of the folder is taken by a file: as a full disk, an error of the file system.
TEST_F(CheckpointSaverTest, AFailureIsSaidOnceAndItsEndToo) {
  TALLY_ASSERT_OK(WriteFileAtomically(state_.File("jobs"), "in the way"));
  const auto saver = Make(absl::Seconds(60));
  saver->SaveNow(OfRound(1));
  EXPECT_THAT(reports_, ElementsAre(AllOf(StartsWith("warning: its checkpoint is not written"),
                                          HasSubstr(state_.File("jobs")))));
  saver->SaveNow(OfRound(2));
  EXPECT_EQ(reports_.size(), 1u);
  TALLY_ASSERT_OK(RemoveTree(state_.File("jobs")));
  saver->SaveNow(OfRound(3));
  EXPECT_EQ(RoundOnDisk(), 3u);
  EXPECT_EQ(reports_.back(), "info: its checkpoints are written again");
  saver->SaveNow(OfRound(4));
  EXPECT_EQ(reports_.size(), 2u);
}

// No file may grow beyond some bytes: the write breaks off in the middle, as on a full disk.
TEST_F(CheckpointSaverTest, AWriteThatBreaksOffLeavesTheOneOfBefore) {
  const auto saver = Make(absl::Seconds(60));
  saver->SaveNow(OfRound(1));
  JobCheckpoint large = OfRound(2);
  large.parameters.assign(100000, 1.0f);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {100000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  saver->SaveNow(large);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("its checkpoint is not written")));
  EXPECT_EQ(RoundOnDisk(), 1u);
  saver->SaveNow(large);
  EXPECT_EQ(RoundOnDisk(), 2u);
}

}  // namespace
}  // namespace tally
