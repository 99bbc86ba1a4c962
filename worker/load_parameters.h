#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/layout.h"

namespace tally {

struct LoadOptions {
  // Tensors of the last trained block are neither expected nor read (ModelSpec.reset_head).
  bool skip_head = false;
};

// Every tensor of the layout by name, in any order, as float32 to its place in `parameters`, which
// has layout.size() elements. INVALID_ARGUMENT with all that is missing, unexpected, of another
// shape or not floating-point, one a line; nothing is written then. Integer counters named
// *.num_batches_tracked are left out, with a line in the log.
absl::Status LoadParameters(const CheckpointReader& checkpoint, const Layout& layout,
                            const LoadOptions& options, absl::Span<float> parameters);

}  // namespace tally
