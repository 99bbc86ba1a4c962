// The rows of a partition that are trained on, the held-out ones passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "worker/data/data_source.h"

namespace tally {

// Of the reader's rows 0, 1, ... without each of which (row + 1) is a multiple of `every`.
class WithoutHeldOut : public ExampleReader {
 public:
  // `every` is at least 2.
  WithoutHeldOut(std::unique_ptr<ExampleReader> reader, uint32_t every)
      : reader_(std::move(reader)), every_(every) {}
  absl::StatusOr<bool> Next(char* elements, uint32_t* label) override {
    for (;;) {
      const absl::StatusOr<bool> more = reader_->Next(elements, label);
      if (!more.ok() || !*more || ++row_ % every_ != 0) return more;
    }
  }

 private:
  const std::unique_ptr<ExampleReader> reader_;
  const uint32_t every_;
  uint64_t row_ = 0;
};

}  // namespace tally
