#include "common/spec/without_worker.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

v1::JobStatus Job(int attached, v1::JobState state = v1::RUNNING) {
  v1::JobStatus job;
  job.set_job_id("job-3");
  job.set_state(state);
  job.mutable_spec()->mutable_workers()->set_quorum(2);
  job.mutable_spec()->mutable_workers()->set_minimum(2);
  for (int i = 0; i < 4; ++i) {
    job.add_workers()->set_name(absl::StrCat("w", i));
    job.mutable_workers(i)->set_attached(i < attached);
  }
  return job;
}

TEST(WithoutWorker, SaysWhetherTheJobGoesOn) {
  EXPECT_EQ(WithoutWorker(Job(4), "w0"), "job-3 goes on with 3 workers, quorum 2");
  EXPECT_EQ(WithoutWorker(Job(3), "w0"), "job-3 goes on with 2 workers, quorum 2");
  EXPECT_EQ(WithoutWorker(Job(2), "w0"), "job-3 pauses: 1 worker attached, minimum 2");
  EXPECT_EQ(WithoutWorker(Job(2), "w3"), "job-3 goes on with 2 workers, quorum 2") << "not attached";
  EXPECT_EQ(WithoutWorker(Job(2, v1::PAUSED), "w0"),
            "job-3 pauses: 1 worker attached, minimum 2");
  EXPECT_EQ(WithoutWorker(Job(3, v1::PAUSED), "w0"), "job-3 has 2 workers left, minimum 2");
  EXPECT_EQ(WithoutWorker(Job(1, v1::WAITING), "w0"), "job-3 has 0 workers left, minimum 2");
}

}  // namespace
}  // namespace tally
