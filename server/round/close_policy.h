// May this round close, and why? A pure function of what is known now, tested as a table.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tally {

struct CloseOptions {
  uint32_t workers = 1;  // that may have a place in the job
  uint32_t quorum = 1;   // contributions with which a round may close at its deadline
  uint32_t minimum = 1;  // attached workers below which the job pauses
};

// A round at one moment. Workers are counted once, in the first group that fits.
struct RoundProgress {
  uint32_t contributed = 0;  // complete contributions, also of workers that have gone since
  uint32_t abstained = 0;    // contributions that were withheld, or left out as damaged
  uint32_t awaited = 0;      // attached, and neither of the above
  uint32_t attached = 0;     // workers attached now, whatever they have done
  // Since the round was opened, or since enough workers are attached again.
  absl::Duration since_opening = absl::ZeroDuration();
  absl::Duration deadline = absl::InfiniteDuration();
};

enum class CloseAction {
  kWait,   // for workers, or for the deadline
  kClose,  // with what there is
  kPause,  // too few workers are attached, or nobody is left to wait for
  kOverdue,  // enough are attached, but the deadline has passed without the quorum
  kFail,   // the round can never reach its quorum
};

struct CloseDecision {
  CloseAction action = CloseAction::kWait;
  std::string reason;  // for people
};

CloseDecision DecideClose(const RoundProgress& progress, const CloseOptions& options);

}  // namespace tally
