// Which jobs start now, and on which workers. A pure function.
//
// First come first served over matching workers: jobs are looked at in the order of submission. One
// that finds enough free workers takes the first of them by name; their order is their index. One
// that does not keeps all those it could use from the jobs behind it, so that a small job
// never overtakes a large one that wants the same workers, while a job that wants others goes ahead.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct QueuedJob {
  std::string job_id;
  v1::JobSpec spec;
};

struct JobStart {
  std::string job_id;
  std::vector<std::string> workers;  // by index, ascending by name
};

struct JobWait {
  std::string job_id;
  std::string reason;  // "needs 4 workers with data set x, 3 free match"
};

struct SchedulePlan {
  std::vector<JobStart> start;
  std::vector<JobWait> wait;
};

// Device, labels, data set and architecture of the job are all there.
bool Matches(const v1::JobSpec& spec, const v1::Hello& worker);

// `queue` in the order of submission; `free` in any order, names unique.
SchedulePlan PlanSchedule(absl::Span<const QueuedJob> queue, absl::Span<const v1::Hello> free);

}  // namespace tally
