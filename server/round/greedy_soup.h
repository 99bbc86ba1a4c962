// The greedy soup (Wortsman et al. 2022, "Model soups", section 2): workers' models, best first, join the
// average one after the other, each only if that makes the held-out score strictly better.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tally {

// On held-out examples, summed over those who scored. Better: the higher share of correct ones;
// with equal shares the lower mean loss.
struct SoupScore {
  uint64_t correct = 0;
  uint64_t count = 0;
  double loss_sum = 0;
};
// One of no examples, or with a loss that is not finite, is better than none.
bool IsStrictlyBetter(const SoupScore& a, const SoupScore& b);

struct SoupDecision {
  bool done = false;
  // Worker indices, ascending: the soup if it is done, otherwise the average to be scored next.
  std::vector<uint32_t> members;
};

// A worker's model as it is.
struct SoupCandidate {
  uint32_t worker = 0;  // index in the job
  SoupScore score;
};

// The candidates' own scores order them: each is of its worker's rows alone. The first average asked for
// is the best one by itself, so that all averages, that one included, are compared on the same rows.
//
// A pure function of the scores alone and of those of the averages that it has asked for before, in
// that order, so that it can be replayed. Equal candidates: the lower index first. At least one candidate.
SoupDecision DecideSoup(std::vector<SoupCandidate> candidates, absl::Span<const SoupScore> trials);

}  // namespace tally
