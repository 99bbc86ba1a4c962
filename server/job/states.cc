#include "server/job/states.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tally {
namespace {

const JobStateRow* FindRow(v1::JobState state) {
  for (const JobStateRow& row : JobStateTable()) {
    if (row.state == state) return &row;
  }
  return nullptr;
}

bool Contains(const std::vector<v1::JobState>& states, v1::JobState state) {
  for (const v1::JobState each : states) {
    if (each == state) return true;
  }
  return false;
}

}  // namespace

// A server that takes a job up again says what it finds in the ledger, whose tail a crash of the
// machine may have cost; so states that hold workers may follow one another in any order.
const std::vector<JobStateRow>& JobStateTable() {
  using enum v1::JobState;
  static const auto* table = new std::vector<JobStateRow>{
      // Announced once the submission is on disk.
      {PENDING, "PENDING", Announced::kAfter, {WAITING, FAILED, CANCELLED}},
      // Announced before the workers are told.
      {WAITING, "WAITING", Announced::kBefore, {RUNNING, PAUSED, FINALIZING, FAILED, CANCELLED}},
      // Announced before the first round is sent out.
      {RUNNING, "RUNNING", Announced::kBefore, {WAITING, PAUSED, FINALIZING, FAILED, CANCELLED}},
      // Announced when rounds have stopped.
      {PAUSED, "PAUSED", Announced::kAfter, {WAITING, RUNNING, FINALIZING, FAILED, CANCELLED}},
      // Announced after the last round, before the result is written.
      {FINALIZING,
       "FINALIZING",
       Announced::kBefore,
       {WAITING, RUNNING, PAUSED, SUCCEEDED, FAILED, CANCELLED}},
      // Announced when the result is on disk.
      {SUCCEEDED, "SUCCEEDED", Announced::kAfter, {}},
      // These two before the workers are released.
      {FAILED, "FAILED", Announced::kBefore, {}},
      {CANCELLED, "CANCELLED", Announced::kBefore, {}},
  };
  return *table;
}

absl::string_view JobStateName(v1::JobState state) {
  const JobStateRow* row = FindRow(state);
  return row == nullptr ? "UNSPECIFIED" : row->name;
}

absl::StatusOr<v1::JobState> ParseJobState(absl::string_view name) {
  for (const JobStateRow& row : JobStateTable()) {
    if (row.name == name) return row.state;
  }
  const auto name_of = [](std::string* out, const JobStateRow& row) {
    absl::StrAppend(out, row.name);
  };
  return absl::InvalidArgumentError(absl::StrCat("expected a job state (",
                                                 absl::StrJoin(JobStateTable(), ", ", name_of),
                                                 "), found \"", name, "\""));
}

bool IsTerminal(v1::JobState state) {
  const JobStateRow* row = FindRow(state);
  return row != nullptr && row->next.empty();
}

bool HoldsWorkers(v1::JobState state) {
  return state == v1::WAITING || state == v1::RUNNING || state == v1::PAUSED ||
         state == v1::FINALIZING;
}

absl::Status CheckTransition(v1::JobState from, v1::JobState to) {
  const JobStateRow* row = FindRow(from);
  if (row != nullptr && (from == to || Contains(row->next, to))) return absl::OkStatus();
  if (IsTerminal(from)) {
    return absl::FailedPreconditionError(absl::StrCat("the job has ended: ", JobStateName(from)));
  }
  return absl::FailedPreconditionError(absl::StrCat("expected a state that may follow ",
                                                    JobStateName(from), ", found ",
                                                    JobStateName(to)));
}

}  // namespace tally
