#include "worker/data/shuffled_reader.h"

#include <cstring>
#include <utility>

#include "common/base/random.h"
#include "common/base/status.h"

namespace tally {
namespace {

// Uniform in [0, bound) up to 2^-64 * bound (Lemire's multiply and shift).
uint64_t Below(uint64_t bound, uint64_t random) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * bound) >> 64);
}

}  // namespace

ShuffledReader::ShuffledReader(std::unique_ptr<ExampleReader> reader, uint64_t example_bytes,
                               uint64_t capacity, uint64_t key)
    : reader_(std::move(reader)), example_bytes_(example_bytes), capacity_(capacity), key_(key) {
  elements_.reserve(capacity * example_bytes);
  labels_.reserve(capacity);
}

uint64_t ShuffledReader::buffered_bytes() const {
  return elements_.capacity() + labels_.capacity() * sizeof(uint32_t);
}

absl::Status ShuffledReader::FillUp() {
  while (!at_end_ && labels_.size() < capacity_) {
    elements_.resize((labels_.size() + 1) * example_bytes_);
    labels_.push_back(0);
    TALLY_ASSIGN_OR_RETURN(const bool more,
                           reader_->Next(Slot(labels_.size() - 1), &labels_.back()));
    if (!more) {
      at_end_ = true;
      labels_.pop_back();
    }
  }
  return absl::OkStatus();
}

void ShuffledReader::CloseGap(uint64_t index) {
  const uint64_t last = labels_.size() - 1;
  if (index != last) std::memcpy(Slot(index), Slot(last), example_bytes_);
  labels_[index] = labels_[last];
  labels_.pop_back();
}

absl::StatusOr<bool> ShuffledReader::Next(char* elements, uint32_t* label) {
  TALLY_RETURN_IF_ERROR(FillUp());
  if (labels_.empty()) return false;
  const uint64_t index = Below(labels_.size(), RandomWord(key_, drawn_++));
  std::memcpy(elements, Slot(index), example_bytes_);
  *label = labels_[index];
  CloseGap(index);
  return true;
}

}  // namespace tally
