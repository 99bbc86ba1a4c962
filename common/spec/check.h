// What a job must be, the same on the client's and the server's side.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// `field` is the key of the job file: "learning_rate.peak". `message` reads "expected X, found Y".
struct SpecProblem {
  std::string field;
  std::string message;
};

// Every problem of a spec whose defaults are filled in (WithDefaults). What only the workers can
// know (architectures, data sets, a config that fits) is not looked at.
std::vector<SpecProblem> FindSpecProblems(const v1::JobSpec& spec);

// INVALID_ARGUMENT with every problem, one a line: "learning_rate.peak: expected ..., found ...".
absl::Status CheckJobSpec(const v1::JobSpec& spec);

// A plain name: 1 to 200 printable ASCII characters, no slash or backslash, not "." or "..",
// no space at either end.
bool IsJobName(absl::string_view name);
// 1 to 64 characters of [A-Za-z0-9_-].
bool IsToken(absl::string_view token);

}  // namespace tally
