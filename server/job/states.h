// The states of a job and which may follow which. Pure tables; who persists and tells is the
// registry.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// When a state is told to others. It is always on disk before that.
enum class Announced {
  kBefore,  // what the state names may only just begin
  kAfter,   // what the state names is done
};

struct JobStateRow {
  v1::JobState state;
  absl::string_view name;
  Announced announced;
  std::vector<v1::JobState> next;  // empty: terminal
};

// All states, in the order of the enum; UNSPECIFIED is none.
const std::vector<JobStateRow>& JobStateTable();

// "UNSPECIFIED" for a number that is no state.
absl::string_view JobStateName(v1::JobState state);
// INVALID_ARGUMENT lists the names.
absl::StatusOr<v1::JobState> ParseJobState(absl::string_view name);

// SUCCEEDED, FAILED and CANCELLED; they never change.
bool IsTerminal(v1::JobState state);
// WAITING to FINALIZING: workers are assigned and not yet released.
bool HoldsWorkers(v1::JobState state);

// FAILED_PRECONDITION if `to` may not follow `from`. A state may follow itself (a new reason).
absl::Status CheckTransition(v1::JobState from, v1::JobState to);

}  // namespace tally
