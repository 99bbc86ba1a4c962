// A method's worker side: what of a chunk's gradient is contributed. Spans only. What the aggregate
// then does is an update rule (common/update), which the server names in the RoundSpec.
//
// A new method is one folder here, one line in registry.cc and one in the server's planner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/chunk_grid.h"
#include "common/layout/layout.h"
#include "common/reduction/reduction.h"
#include "common/update/mask.h"
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

// Values that a method keeps from round to round.
struct MethodState {
  std::string name;  // unique in the method
  absl::Span<float> values;
};
using MethodStateCopy = std::map<std::string, std::vector<float>>;

// For one job; calls come one at a time, each chunk of a round once.
class Method {
 public:
  virtual ~Method() = default;
  // The contribution's payload of a chunk. `gradient` has chunk.count elements: the gradient of the
  // batch's mean loss. Local state of the chunk (momentum) moves on.
  virtual absl::StatusOr<Bytes> Encode(const v1::RoundSpec& round, const Chunk& chunk,
                                       absl::Span<const float> gradient, EncodeStats* stats) = 0;
  // Views of all that it keeps: what a restarted worker needs to go on as if it had not been. All
  // random bits are functions of seed, worker and round, and need no keeping.
  virtual std::vector<MethodState> State() { return {}; }

  // A step of the worker's own optimiser, of methods that have local rounds. LocalOptimiser::Step.
  virtual absl::Status LocalStep(double /*learning_rate*/, absl::Span<const float> /*gradient*/,
                                 absl::Span<float> /*x*/) {
    return absl::UnimplementedError("this method has no local steps");
  }

  // Before and after a round's Encode calls where all of them succeed: what they would change of the state
  // becomes so at the end, or never.
  virtual void BeginContribution() {}
  virtual void EndContribution() {}

  // Later calls are over this mask, of methods that have one; state of elements that stay goes on.
  virtual void SetMask(const MaskPointer& /*mask*/) {}

  MethodStateCopy CopyState();
  // INVALID_ARGUMENT, with nothing changed, for a copy of other names or sizes.
  absl::Status Restore(const MethodStateCopy& copy);

 private:
  // State() has other values now.
  virtual void Restored() {}
};

// NOT_FOUND lists the names there are.
absl::StatusOr<std::unique_ptr<Method>> MakeMethod(const MethodOptions& options,
                                                   const Layout& layout);
std::vector<std::string> Methods();

}  // namespace tally
