// What a watched job looks like, as text. All pure.
#pragma once

#include <optional>
#include <string>

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

}  // namespace tally
