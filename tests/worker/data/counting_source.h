// A data set in memory whose row i is the number i, for tests of what reads rows.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "worker/data/data_source.h"

namespace tally::testing {

class CountingSource : public DataSource {
 public:
  explicit CountingSource(uint64_t train, uint64_t test = 0, uint64_t readable = UINT64_MAX)
      : info_{{{1}, ElementType::kFloat32}, 1, train, test}, readable_(readable) {}

  const DataInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<ExampleReader>> Read(Split, RowSet rows) const override {
    return std::make_unique<Reader>(*this, rows);
  }
  // Rows handed out so far, by all readers.
  uint64_t rows_read() const { return rows_read_; }

 private:
  class Reader : public ExampleReader {
   public:
    Reader(const CountingSource& source, RowSet rows) : source_(source), rows_(rows) {}
    absl::StatusOr<bool> Next(char* elements, uint32_t* label) override {
      if (read_ == rows_.count) return false;
      if (source_.rows_read_ == source_.readable_) return absl::DataLossError("disk gone");
      const uint64_t row = rows_.first + read_++ * rows_.step;
      const auto value = static_cast<float>(row);
      std::memcpy(elements, &value, sizeof(value));
      *label = static_cast<uint32_t>(row);
      ++source_.rows_read_;
      return true;
    }

   private:
    const CountingSource& source_;
    const RowSet rows_;
    uint64_t read_ = 0;
  };

  const DataInfo info_;
  const uint64_t readable_;
  mutable std::atomic<uint64_t> rows_read_ = 0;
};

}  // namespace tally::testing
