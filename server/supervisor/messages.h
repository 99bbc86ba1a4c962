// What a worker's session is told.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

v1::SessionDown WelcomeMessage(absl::Duration heartbeat);
// For the place of that index, with what it has contributed so far.
v1::SessionDown AssignmentMessage(const v1::JobStatus& job, uint32_t index);
v1::SessionDown ReleaseMessage(const std::string& job_id, const std::string& reason);

// Tells the job from any other that ever had its id: a digest of the id and of the bits of
// submitted_at, little-endian.
uint64_t JobKey(const v1::JobStatus& job);

}  // namespace tally
