#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "worker/data/data_source.h"

namespace tally {

// Pass after pass over some rows of the training split, each in its own shuffled order.
class EpochReader {
 public:
  // `rows` is not empty; each `hold_out_every`-th of them (0: none) is passed over. `shuffle_buffer` 0
  // keeps the stored order. `source` must outlive this.
  EpochReader(const DataSource& source, RowSet rows, uint32_t hold_out_every, uint32_t shuffle_buffer,
              uint64_t seed, uint32_t worker, uint64_t first_epoch)
      : source_(source),
        rows_(rows),
        hold_out_every_(hold_out_every),
        shuffle_buffer_(shuffle_buffer),
        seed_(seed),
        worker_(worker),
        epoch_(first_epoch) {}

  // Examples of an epoch.
  uint64_t examples() const {
    return hold_out_every_ == 0 ? rows_.count : rows_.count - rows_.count / hold_out_every_;
  }
  // As ExampleReader::Next, without an end.
  absl::Status Next(char* elements, uint32_t* label);

 private:
  absl::Status OpenEpoch();

  const DataSource& source_;
  const RowSet rows_;
  const uint32_t hold_out_every_;
  const uint32_t shuffle_buffer_;
  const uint64_t seed_;
  const uint32_t worker_;
  uint64_t epoch_;
  uint64_t read_ = 0;  // examples of this epoch
  std::unique_ptr<ExampleReader> reader_;
};

}  // namespace tally
