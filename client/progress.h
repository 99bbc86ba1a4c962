// What a watched job looks like, as text. All pure.
#pragma once

#include <optional>
#include <string>

#include "proto/tally/v1/control.pb.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// One line of at most `width` columns, without a newline:
//   fashion-mnist RUNNING [=====>     ] 412/1000  loss 0.4321  acc 84.20%  left 1m20s
//   bits 1.00/1.00
// Fields that do not fit are left out, from the last.
std::string ProgressLine(const v1::JobStatus& job, int width);

// The line for people without a terminal, if `now` differs notably from `before` (null: the first
// status): another state, a new evaluation, another tenth of the rounds. Otherwise nothing.
std::optional<std::string> NotableLine(const v1::JobStatus* before, const v1::JobStatus& now);

// One line of at most `width` columns: verifying [=====>     ] 412/1000  digests 80  differences 2
std::string VerifyLine(const v1::VerifyProgress& progress, int width);
// What was found, in two lines without the last newline:
//   rounds 0..4000 replayed; 400 worker digests and 5 snapshots compared: all equal
//   parameters after round 4000: 0123456789abcdef
std::string VerifySummary(const v1::VerifyProgress& result);

}  // namespace tally
