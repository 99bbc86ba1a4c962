#include "server/audit/task_threads.h"

#include "absl/synchronization/notification.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

std::function<void()> Nothing() { return nullptr; }

TaskThreads::Task Waiting(absl::Notification& end, std::function<void()> last = nullptr) {
  return [&end, last] {
    end.WaitForNotification();
    return last;
  };
}

TEST(TaskThreadsTest, SoManyAtOnceAndOneOfAKey) {
  absl::Notification first_done, end;
  {
    TaskThreads threads(2, "verifications");
    absl::Notification end_first;
    TALLY_ASSERT_OK(threads.Start("job-1", Waiting(end_first, [&] { first_done.Notify(); })));
    EXPECT_THAT(threads.Start("job-1", Nothing), StatusIs(kExhausted, HasSubstr("job-1")));
    TALLY_ASSERT_OK(threads.Start("job-2", Waiting(end)));
    EXPECT_THAT(threads.Start("job-3", Nothing),
                StatusIs(kExhausted, HasSubstr("at 2 verifications")));
    end_first.Notify();
    first_done.WaitForNotification();  // who hears of the end may begin another
    TALLY_EXPECT_OK(threads.Start("job-1", Nothing));
    end.Notify();
  }
}

TEST(TaskThreadsTest, WithoutAKeyOnlyTheNumberCounts) {
  absl::Notification end;
  TaskThreads threads(2, "exports");
  TALLY_EXPECT_OK(threads.Start("", Waiting(end)));
  TALLY_EXPECT_OK(threads.Start("", Waiting(end)));
  EXPECT_THAT(threads.Start("", Nothing), StatusIs(kExhausted, HasSubstr("exports")));
  end.Notify();
}

TEST(TaskThreadsTest, TheEndWaitsForAll) {
  int done = 0;
  absl::Mutex mutex;
  {
    TaskThreads threads(8, "tasks");
    for (int i = 0; i < 8; ++i) {
      TALLY_ASSERT_OK(threads.Start("", [&] {
        return [&] {
          absl::MutexLock lock(&mutex);
          ++done;
        };
      }));
    }
  }
  EXPECT_EQ(done, 8);
}

}  // namespace
}  // namespace tally
