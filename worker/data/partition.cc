#include "worker/data/partition.h"

#include "absl/strings/str_cat.h"

namespace tally {

RowSet ShareOfRows(uint64_t rows, uint32_t index, uint32_t shares) {
  const uint64_t count = rows / shares + (index < rows % shares ? 1 : 0);
  return {index, shares, count};
}

absl::StatusOr<RowSet> PartitionRows(uint64_t rows, uint32_t index, uint32_t partitions,
                                     absl::string_view what) {
  if (index >= partitions) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected a partition below ",
                                                   partitions, ", found ", index));
  }
  if (partitions > rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected at least one row a partition, found ", rows, " rows for ",
                     partitions, " partitions"));
  }
  return ShareOfRows(rows, index, partitions);
}

RowSet HeldOutRows(const RowSet& rows, uint32_t every) {
  return {rows.first + (every - 1) * rows.step, rows.step * every, rows.count / every};
}

}  // namespace tally
