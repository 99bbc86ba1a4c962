// What the command tells the shell. docs/errors.md.
#pragma once

#include "absl/status/status.h"

namespace tally {

enum class ExitCode {
  kOk = 0,
  kFailed = 1,        // the job or the server
  kNoConnection = 2,  // not reachable, or refused to know us
  kTimeout = 3,
  kBadArguments = 4,  // or a bad job file
  kInternal = 5,      // our own fault
  kInterrupted = 130,
};

// By the status's code. Statuses of calls must have come through ServerError: there INTERNAL and
// the like are the server's fault, here our own.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace tally
