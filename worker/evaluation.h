// A model's score on a share of a test split.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"

namespace tally {

// Share `index` of `shares` of the test split, as sums and counts: the shares' sums are the whole's.
absl::StatusOr<Score> EvaluateShare(Model& model, const DataSource& data, uint32_t index,
                                    uint32_t shares);

// Of any rows of a split.
absl::StatusOr<Score> EvaluateRows(Model& model, const DataSource& data, Split split, RowSet rows);

}  // namespace tally
