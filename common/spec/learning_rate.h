#pragma once

#include <cstdint>

#include "proto/tally/v1/job.pb.h"

namespace tally {

// The rate of `round`, 1 to `rounds`. With W = max(1, warmup_rounds), at most `rounds`: rises
// linearly from peak / W in round 1 to peak in round W, then goes to `final`, which the last round
// has: linearly, along half a cosine, or, for a constant schedule, stays at peak.
double LearningRateAt(const v1::LearningRate& rate, uint64_t round, uint64_t rounds);

// The rate of a worker's local step, 1 to rounds * method.local.steps, of a job with local steps: the
// same schedule over those, with warmup_steps.
double LocalLearningRateAt(const v1::JobSpec& job, uint64_t step);

}  // namespace tally
