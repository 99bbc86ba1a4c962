#include "common/spec/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tally {

double LearningRateAt(const v1::LearningRate& rate, uint64_t round, uint64_t rounds) {
  const uint64_t warmup =
      std::min(std::max<uint64_t>(rate.warmup_rounds(), 1), std::max<uint64_t>(rounds, 1));
  if (round < warmup) {
    return rate.peak() * static_cast<double>(round) / static_cast<double>(warmup);
  }
  if (round == warmup || rate.schedule() == "constant") return rate.peak();
  if (round >= rounds) return rate.final();
  const double progress =
      static_cast<double>(round - warmup) / static_cast<double>(rounds - warmup);
  const double left = rate.schedule() == "cosine"
                          ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                          : 1.0 - progress;
  return rate.final() + (rate.peak() - rate.final()) * left;
}

double LocalLearningRateAt(const v1::JobSpec& job, uint64_t step) {
  v1::LearningRate rate = job.learning_rate();
  rate.set_warmup_rounds(rate.warmup_steps());
  return LearningRateAt(rate, step, job.rounds() * job.method().local().steps());
}

}  // namespace tally
