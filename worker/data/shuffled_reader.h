#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/data/data_source.h"

namespace tally {

// Draws at random from a buffer of examples and fills the gap with the reader's next one; each
// example comes exactly once. The order is a function of `key` (a stream key) and the capacity.
class ShuffledReader : public ExampleReader {
 public:
  // `capacity` is positive; an example moves forward by less than that many places.
  ShuffledReader(std::unique_ptr<ExampleReader> reader, uint64_t example_bytes, uint64_t capacity,
                 uint64_t key);
  absl::StatusOr<bool> Next(char* elements, uint32_t* label) override;
  // Bytes of elements and labels held.
  uint64_t buffered_bytes() const;

 private:
  char* Slot(uint64_t index) { return elements_.data() + index * example_bytes_; }
  absl::Status FillUp();
  void CloseGap(uint64_t index);

  std::unique_ptr<ExampleReader> reader_;
  const uint64_t example_bytes_;
  const uint64_t capacity_;
  const uint64_t key_;
  uint64_t drawn_ = 0;
  bool at_end_ = false;
  std::vector<char> elements_;
  std::vector<uint32_t> labels_;
};

}  // namespace tally
