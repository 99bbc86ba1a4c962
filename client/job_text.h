#pragma once

#include <string>

#include "absl/time/time.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// A job for people: one "key  value" a line, then a table of its workers. Pure.
std::string JobText(const v1::JobStatus& job, absl::TimeZone zone);

}  // namespace tally
