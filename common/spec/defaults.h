#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// Defaults of the job file for an optimiser (OptimiserOf); an unknown one gets Lion's.
struct MethodDefaults {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 0;  // 0: the method has none
};
MethodDefaults DefaultsOf(absl::string_view optimiser);

struct OuterDefaults {
  double learning_rate = 1;
  double momentum = 0;
};
// Of a lofi job's outer optimiser; momentum and nesterov get DiLoCo's (Douillard et al. 2023).
OuterDefaults OuterDefaultsOf(absl::string_view outer);

inline constexpr uint32_t kDefaultShuffleBuffer = 4096;
inline constexpr uint64_t kDefaultRoundDeadlineMs = 60'000;
inline constexpr uint64_t kDefaultPauseLimitMs = 600'000;
inline constexpr uint64_t kDefaultDigestEvery = 50;
inline constexpr uint64_t kDefaultSeed = 42;
// A round of local steps may take long; its deadline is there for workers that hang.
inline constexpr uint64_t kDefaultLocalRoundDeadlineMs = 86'400'000;
inline constexpr uint32_t kDefaultFisherSamples = 256;
inline constexpr uint64_t kDefaultRefreshEvery = 10;
uint64_t DefaultRoundDeadlineMs(const v1::MethodSpec& method);

// Fills what is empty or 0 and cannot mean that: method.aggregation, ties, epsilon, and the words and
// outer numbers of method.local, lofi and fish where the method has them, learning_rate.schedule, workers.quorum, minimum, max, device and round_deadline_ms,
// digest_every. Where 0 has a meaning (betas, decay, seed, pause limit, replace_after) it stays.
v1::JobSpec WithDefaults(v1::JobSpec spec);

}  // namespace tally
