// The method's part of a spec's check, and what it needs of the rest.
#pragma once

#include "common/spec/problems.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

void CheckMethod(const v1::JobSpec& spec, Problems& problems);

}  // namespace tally
