// One pass over some rows of a split, in stored order, without a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/data/data_source.h"

namespace tally {

class EvaluationReader {
 public:
  // Share `index` of `shares`; it may be empty. INVALID_ARGUMENT for a batch size of 0 or an index
  // that is not below `shares`. `source` must outlive the reader.
  static absl::StatusOr<std::unique_ptr<EvaluationReader>> Open(const DataSource& source,
                                                                uint32_t index, uint32_t shares,
                                                                uint32_t batch_size);
  // Any rows of a split, perhaps none.
  static absl::StatusOr<std::unique_ptr<EvaluationReader>> OpenRows(const DataSource& source,
                                                                    Split split, RowSet rows,
                                                                    uint32_t batch_size);
  // The next batch, the last one perhaps short; nullopt at the end.
  absl::StatusOr<std::optional<Batch>> Next();
  // Rows of the share.
  uint64_t rows() const { return rows_; }

 private:
  EvaluationReader(ExampleFormat format, std::unique_ptr<ExampleReader> reader, uint64_t rows,
                   uint32_t batch_size)
      : format_(std::move(format)),
        reader_(std::move(reader)),
        rows_(rows),
        left_(rows),
        batch_size_(batch_size) {}

  const ExampleFormat format_;
  std::unique_ptr<ExampleReader> reader_;
  const uint64_t rows_;
  uint64_t left_;
  const uint32_t batch_size_;
};

}  // namespace tally
