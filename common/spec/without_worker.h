#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// What it means for a job at work that this worker leaves it, for people: "job-3 goes on with 2
// workers, quorum 2", "job-3 pauses: 1 worker attached, minimum 2".
std::string WithoutWorker(const v1::JobStatus& job, absl::string_view worker);

// "1 worker", "3 workers".
std::string WorkerCount(uint64_t count);

}  // namespace tally
