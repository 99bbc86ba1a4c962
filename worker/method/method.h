// A method's worker side: what of a chunk's gradient is contributed. Spans only. What the aggregate
// then does is an update rule (common/update), which the server names in the RoundSpec.
//
// A new method is one folder here, one line in registry.cc and one in the server's planner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct MethodOptions {
  v1::MethodSpec spec;
  uint64_t seed = 0;    // the job's
  uint32_t worker = 0;  // index in the job
};

struct EncodeStats {
  uint64_t nonfinite = 0;  // gradient values that were not finite and counted as zero
};

// For one job; calls come one at a time, each chunk of a round once.
class Method {
 public:
  virtual ~Method() = default;
  // The contribution's payload of a chunk. `gradient` has chunk.count elements: the gradient of the
  // batch's mean loss. Local state of the chunk (momentum) moves on.
  virtual absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                                       absl::Span<const float> gradient, EncodeStats* stats) = 0;
};

// NOT_FOUND lists the names there are.
absl::StatusOr<std::unique_ptr<Method>> MakeMethod(const MethodOptions& options,
                                                   const Layout& layout);
std::vector<std::string> Methods();

}  // namespace tally
