// A job's folder as the operator may have left it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// NOT_FOUND if the job has had a round opened and what belongs to that is no longer in `folder`: taken
// up again, it would silently begin anew. OK for a job that has nothing to lose yet.
absl::Status CheckNotLost(const v1::JobStatus& job, const std::string& folder);

// The Hugging Face directory of a finished job's last snapshot. NOT_FOUND if the folder is gone; no
// error tells a path, which is the operator's business.
absl::StatusOr<std::string> ResultIn(const std::string& job_id, const std::string& folder);

}  // namespace tally
