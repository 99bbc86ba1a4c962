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

TEST(TaskThreadsTest, SoManyAtOnceAndOneOfAKey) {
  absl::Notification first_done, end;
  {
    TaskThreads threads(2, "verifications");
    absl::Notification end_first;
    TALLY_ASSERT_OK(threads.Start("job-1", [&] { end_first.WaitForNotification(); }));
    EXPECT_THAT(threads.Start("job-1", [] {}), StatusIs(kExhausted, HasSubstr("job-1")));
    TALLY_ASSERT_OK(threads.Start("job-2", [&] { end.WaitForNotification(); }));
    EXPECT_THAT(threads.Start("job-3", [] {}),
                StatusIs(kExhausted, HasSubstr("at 2 verifications")));
    end_first.Notify();
    absl::Status started;
    do {
      started = threads.Start("job-3", [&] { first_done.Notify(); });
    } while (!started.ok());
    first_done.WaitForNotification();
    end.Notify();
  }
}

TEST(TaskThreadsTest, WithoutAKeyOnlyTheNumberCounts) {
  absl::Notification end;
  TaskThreads threads(2, "exports");
  TALLY_EXPECT_OK(threads.Start("", [&] { end.WaitForNotification(); }));
  TALLY_EXPECT_OK(threads.Start("", [&] { end.WaitForNotification(); }));
  EXPECT_THAT(threads.Start("", [] {}), StatusIs(kExhausted, HasSubstr("exports")));
  end.Notify();
}

TEST(TaskThreadsTest, TheEndWaitsForAll) {
  int done = 0;
  absl::Mutex mutex;
  {
    TaskThreads threads(8, "tasks");
    for (int i = 0; i < 8; ++i) {
      TALLY_ASSERT_OK(threads.Start("", [&] {
        absl::MutexLock lock(&mutex);
        ++done;
      }));
    }
  }
  EXPECT_EQ(done, 8);
}

}  // namespace
}  // namespace tally
