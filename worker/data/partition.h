// Which rows of a data set a worker reads. Rows go round the partitions like cards: partition i of
// n has rows i, i + n, i + 2n, ..., so that a file grouped by class gives every worker all classes.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tally {

// Rows first, first + step, ..., count of them.
struct RowSet {
  uint64_t first = 0;
  uint64_t step = 1;
  uint64_t count = 0;
};

// Partition `index` of `partitions` of `rows` rows: disjoint, covering, sizes differ by at most 1.
// INVALID_ARGUMENT naming `what` for more partitions than rows, so that none is ever empty.
absl::StatusOr<RowSet> PartitionRows(uint64_t rows, uint32_t index, uint32_t partitions,
                                     absl::string_view what);

// The same split where an empty share is fine (evaluation). index < shares.
RowSet ShareOfRows(uint64_t rows, uint32_t index, uint32_t shares);

// Of a worker's rows those that are held out of training: each `every`-th, the first of them not among
// them. `every` is at least 2.
RowSet HeldOutRows(const RowSet& rows, uint32_t every);

}  // namespace tally
