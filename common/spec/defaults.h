#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// Defaults of the job file, for a method of that name; an unknown one gets distributed_lion's.
struct MethodDefaults {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 0;  // 0: the method has none
};
MethodDefaults DefaultsOf(absl::string_view method);

inline constexpr uint32_t kDefaultShuffleBuffer = 4096;
inline constexpr uint64_t kDefaultRoundDeadlineMs = 60'000;
inline constexpr uint64_t kDefaultPauseLimitMs = 600'000;
inline constexpr uint64_t kDefaultDigestEvery = 50;
inline constexpr uint64_t kDefaultSeed = 42;

// Fills what is empty or 0 and cannot mean that: method.aggregation, ties and epsilon where the
// method has them, learning_rate.schedule, workers.quorum, minimum, max, device and round_deadline_ms,
// digest_every. Where 0 has a meaning (betas, decay, seed, pause limit, replace_after) it stays.
v1::JobSpec WithDefaults(v1::JobSpec spec);

}  // namespace tally
