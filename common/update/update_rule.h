// One step of the fold: how a round's aggregate moves the parameters. Worker and server call the
// same rule with the same context and get the same bits.
//
//   rule        aggregate of           state slots   arithmetic in
//   sign_step   majority or sign_mean  0             sign_step.h; head byte 1 tells which
//   lion_step   dense_mean (gradient)  1: m          lion_step.h
//   adamw_step  dense_mean (gradient)  2: m, v       adamw_step.h
//   assign      dense_mean             0             x = aggregate
//   outer_sgd   dense_mean (delta)     0             outer_step.h
//   outer_momentum, outer_nesterov     1: u          outer_step.h; beta1 is the momentum
//   sparse_add  sparse_mean (delta)    0             x = fma(lr, d, x) for the elements it has; the
//                                                    bytes of all others stay (Sung et al. 2021)
//   set_mask    dense_mean (scores)    0             none: x stays. The aggregate is the mask (mask.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"

namespace tally {

struct UpdateContext {
  double learning_rate = 0;  // finite, at least 0
  double weight_decay = 0;   // finite, at least 0; learning_rate * weight_decay at most 1
  double beta1 = 0.9;        // in [0, 1); for rules with state
  double beta2 = 0.99;       // in [0, 1); for rules with state
  double epsilon = 1e-8;     // above 0; adamw_step
  uint64_t round = 0;        // for errors
  uint64_t step = 1;         // of this rule in the job, from 1; adamw_step's bias correction
};

// One round's aggregate of a chunk, and the numbers it is applied with.
struct UpdateStep {
  UpdateContext context;
  ByteSpan aggregate;
  const IndexSet* mask = nullptr;  // of the chunk, for sparse_add; none: the aggregate says its own
};

// Where a run of elements lies in its chunk.
struct ChunkPart {
  uint32_t count = 0;  // elements of the whole chunk
  uint32_t first = 0;  // of the run: a multiple of 64
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual absl::string_view name() const = 0;
  // Float32 buffers as large as the parameters that the rule keeps between steps, zero at first.
  virtual int state_slots() const = 0;
  // INVALID_ARGUMENT for numbers that Apply refuses.
  absl::Status Check(const UpdateContext& context) const;
  // Moves x, one chunk or any run of elements that the aggregate stands for, and its part of the
  // state. The aggregate has passed CheckAggregate of its reduction. INVALID_ARGUMENT, with
  // nothing changed, if the context, the payload's form or a size is wrong.
  absl::Status Apply(const UpdateContext& context, ByteSpan aggregate, absl::Span<float> x,
                     absl::Span<const absl::Span<float>> state) const;
  // The same for several rounds one after the other, on a part of the chunk that x holds. Each
  // parameter may be read and written once for all.
  absl::Status ApplyAll(absl::Span<const UpdateStep> steps, ChunkPart part, absl::Span<float> x,
                        absl::Span<const absl::Span<float>> state) const;

 private:
  virtual absl::Status CheckContext(const UpdateContext& context) const = 0;
  virtual absl::Status Step(const UpdateStep& step, ChunkPart part, absl::Span<float> x,
                            absl::Span<const absl::Span<float>> state) const = 0;
 protected:
  // Step for one after the other.
  virtual absl::Status Steps(absl::Span<const UpdateStep> steps, ChunkPart part,
                             absl::Span<float> x, absl::Span<const absl::Span<float>> state) const;
};

// The rule of that name, never destroyed. NOT_FOUND lists the names there are.
absl::StatusOr<const UpdateRule*> FindUpdateRule(absl::string_view name);
std::vector<absl::string_view> UpdateRuleNames();

}  // namespace tally
