#include "server/round/fold_thread.h"

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/writer.h"
#include "tests/server/ledger/file_size_limit.h"
#include "tests/server/ledger/real_rounds.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::FileSizeLimit;
using testing::RandomFloats;
using testing::RealRound;
using testing::SmallLayout;
using testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kRounds = 40;

// Answers in the order in which they come.
class Answers {
 public:
  void Add(const FoldResult& result) {
    absl::MutexLock lock(&mutex_);
    results_.push_back(result);
  }
  FoldResult Next() {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !results_.empty(); };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&any), absl::Seconds(60)));
    if (results_.empty()) return {};
    const FoldResult result = results_.front();
    results_.pop_front();
    return result;
  }

 private:
  absl::Mutex mutex_;
  std::deque<FoldResult> results_ ABSL_GUARDED_BY(mutex_);
};

class FoldThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = LedgerWriter::Open(folder_ / "ledger", layout_.digest());
    TALLY_ASSERT_OK(writer);
    writer_ = *std::move(writer);
    TALLY_ASSERT_OK(store_.Write(0, RandomFloats(layout_.size(), 1), {}, "{}"));
    for (uint64_t round = 1; round <= kRounds; ++round) {
      TALLY_ASSERT_OK(
          testing::Append(*writer_, RealRound(layout_, round, "majority", "sign_step")));
    }
    thread_ = std::make_unique<FoldThread>(NewFold(), writer_->reader(), store_,
                                           [this](const FoldResult& r) { answers_.Add(r); });
  }
  Fold NewFold() const { return Fold::FromSnapshot(layout_, **store_.Open(0)); }
  void ExpectDigests(const FoldResult& result, uint64_t round) const {
    Fold fold = NewFold();
    TALLY_ASSERT_OK(fold.AdvanceTo(writer_->reader(), round));
    TALLY_EXPECT_OK(result.status);
    EXPECT_EQ(result.round, round);
    EXPECT_EQ(result.digest, fold.digest());
    EXPECT_EQ(result.blocks, fold.block_digests());
  }

  testing::TestFolder folder_;
  const Layout layout_ = SmallLayout();
  const SnapshotStore store_ = *SnapshotStore::Open(folder_ / "snapshots", layout_);
  std::unique_ptr<LedgerWriter> writer_;
  Answers answers_;
  std::unique_ptr<FoldThread> thread_;
};

TEST_F(FoldThreadTest, AnswersInOrder) {
  for (const uint64_t round : {3, 20, 21, 40}) thread_->Request({round, round == 21});
  for (const uint64_t round : {3, 20, 21, 40}) {
    const FoldResult result = answers_.Next();
    ExpectDigests(result, round);
    EXPECT_EQ(result.snapshot, round == 21);
    TALLY_EXPECT_OK(result.written);
  }
  EXPECT_THAT(*store_.List(), ElementsAre(0, 21));
}

TEST_F(FoldThreadTest, WithoutRoomSnapshotsAreRefusedAndDigestsComeLater) {
  {
    const FileSizeLimit limit(1);
    thread_->Request({5, false});
    thread_->Request({9, true});
    const FoldResult refused = answers_.Next();
    EXPECT_EQ(refused.round, 9u);
    EXPECT_TRUE(refused.snapshot);
    EXPECT_THAT(refused.status,
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no working files")));
  }
  ExpectDigests(answers_.Next(), 5);
  const FoldResult second = answers_.Next();
  ExpectDigests(second, 9);
  EXPECT_FALSE(second.snapshot);
  EXPECT_THAT(*store_.List(), ElementsAre(0));
  thread_->Request({9, true});
  const FoldResult written = answers_.Next();
  EXPECT_TRUE(written.snapshot);
  TALLY_EXPECT_OK(written.written);
  EXPECT_THAT(*store_.List(), ElementsAre(0, 9));
}

TEST_F(FoldThreadTest, ARoundThatIsNotThereIsAnError) {
  thread_->Request({kRounds + 1, true});
  EXPECT_THAT(answers_.Next().status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("round 41")));
}

TEST_F(FoldThreadTest, StopsWhileItWaitsForRoom) {
  const FileSizeLimit limit(1);
  thread_->Request({5, true});
  EXPECT_THAT(answers_.Next().status, StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  thread_.reset();
}

}  // namespace
}  // namespace tally
