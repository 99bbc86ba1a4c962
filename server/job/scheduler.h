// Which jobs start now and on which workers, and which running jobs get another worker. A pure
// function.
//
// First come first served over matching workers: jobs are looked at in the order of submission. One
// that finds enough free workers takes the first of them by name; their order is their index. One
// that does not keeps all those it could use from the jobs behind it, so that a small job
// never overtakes a large one that wants the same workers, while a job that wants others goes ahead.
// What is free and kept for nobody then goes to begun jobs with open places, the oldest first. A job
// that a person holds takes and keeps nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct QueuedJob {
  std::string job_id;
  v1::JobSpec spec;
  std::optional<std::string> held = std::nullopt;  // why a person holds it
};

// A job that has begun.
struct OpenJob {
  std::string job_id;
  v1::JobSpec spec;
  uint32_t open_places = 0;
  std::set<std::string> unwanted;  // workers that are not to be given to it
};

enum class WorkerUse { kFree, kBusy, kDrained };

struct KnownWorker {
  v1::Hello hello;
  WorkerUse use = WorkerUse::kFree;
};

struct JobStart {
  std::string job_id;
  std::vector<std::string> workers;  // by index, ascending by name
};

struct JobWait {
  std::string job_id;
  std::string reason;  // "needs 4 workers with data set x; 3 free match; 1 drained"
};

struct JobGrowth {
  std::string job_id;
  std::string worker;
};

struct SchedulePlan {
  std::vector<JobStart> start;
  std::vector<JobWait> wait;
  std::vector<JobGrowth> grow;
};

// Device, labels, data set and architecture of the job are all there.
bool Matches(const v1::JobSpec& spec, const v1::Hello& worker);

// `queue` in the order of submission, `open` the oldest first; `workers`, all that are connected, in
// any order, names unique.
SchedulePlan PlanSchedule(absl::Span<const QueuedJob> queue, absl::Span<const OpenJob> open,
                          absl::Span<const KnownWorker> workers);

}  // namespace tally
