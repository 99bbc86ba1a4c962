// Lion's vote (Chen et al. 2023; Distributed Lion, Liu et al. 2024): momentum, sign and packing in
// one pass over a chunk.
//
// The arithmetic, the same bits on every machine; each operation is in float32 and rounded by
// itself, none is fused:
//   g' = g if finite, else 0
//   c  = b1 * m + (1 - b1) * g'      coefficients computed in double, then rounded to float32
//   m  = b2 * m + (1 - b2) * g'
// Element i votes plus if c > 0. If c is zero (of either sign) it votes bit i % 64 of
// RandomWord(zero_key, first_lane + i / 64), so that zeros bias nothing. A lane in which every c is
// zero is silent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"

namespace tally {

struct LionEncodeOptions {
  double beta1 = 0.9;   // in [0, 1)
  double beta2 = 0.99;  // in [0, 1)
  uint64_t zero_key = 0;    // StreamKey(job seed, worker index + 1, round, kZero)
  uint64_t first_lane = 0;  // the chunk's first element / 64 on the lane grid of its round
};

struct LionEncodeStats {
  size_t payload_bytes = 0;
  uint64_t nonfinite = 0;     // gradients that were NaN or infinite and counted as zero
  uint64_t silent_lanes = 0;
};

// Writes the contribution (common/reduction/sign_payload.h) of `gradient` to the front of `out`
// and moves `momentum` on. Gradient and momentum have the same size, at least 1; the momentum is
// finite; `out` has SignPayloadBytes(size, true) bytes or more, at any alignment.
// INVALID_ARGUMENT if not so; then nothing is changed.
absl::StatusOr<LionEncodeStats> LionEncode(absl::Span<const float> gradient,
                                           absl::Span<float> momentum,
                                           const LionEncodeOptions& options,
                                           absl::Span<unsigned char> out);

// The same into `payload`, resized to fit.
absl::StatusOr<LionEncodeStats> LionEncode(absl::Span<const float> gradient,
                                           absl::Span<float> momentum,
                                           const LionEncodeOptions& options, Bytes* payload);

}  // namespace tally
