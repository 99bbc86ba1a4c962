#include "server/supervisor/messages.h"

#include "gtest/gtest.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {
namespace {

v1::JobStatus Job() {
  v1::JobStatus job;
  job.set_job_id("job-3");
  job.set_submitted_at(1.5e9);
  *job.mutable_spec() = ValidSpec();
  for (uint32_t index = 0; index < 5; ++index) {
    v1::JobWorker& place = *job.add_workers();
    place.set_index(index);
    place.set_contributions(10 * index);
  }
  return job;
}

TEST(Messages, AssignmentIsOfThePlace) {
  const v1::Assignment assignment = AssignmentMessage(Job(), 4).assignment();
  EXPECT_EQ(assignment.job_id(), "job-3");
  EXPECT_EQ(assignment.index(), 4u);
  EXPECT_EQ(assignment.count(), 4u) << "what it began with, not what it has grown to";
  EXPECT_EQ(assignment.contributions(), 40u);
  EXPECT_EQ(assignment.job_key(), JobKey(Job()));
}

TEST(Messages, JobKeyTellsJobsOfOneIdApart) {
  v1::JobStatus later = Job();
  later.set_submitted_at(1.5e9 + 1);
  EXPECT_NE(JobKey(later), JobKey(Job()));
  v1::JobStatus other = Job();
  other.set_job_id("job-4");
  EXPECT_NE(JobKey(other), JobKey(Job()));
  v1::JobStatus further = Job();
  further.set_round(7);
  EXPECT_EQ(JobKey(further), JobKey(Job()));
}

}  // namespace
}  // namespace tally::testing
