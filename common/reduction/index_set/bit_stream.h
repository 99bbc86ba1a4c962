// Bits one after the other, from the lowest of each byte on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tally {

class BitWriter {
 public:
  explicit BitWriter(std::vector<unsigned char>* bytes) : bytes_(bytes) {}
  // The low `bits` of value, 32 at most.
  void Put(uint32_t value, uint32_t bits) {
    word_ |= (uint64_t{value} & ((uint64_t{1} << bits) - 1)) << filled_;
    filled_ += bits;
    while (filled_ >= 8) TakeByte();
  }
  // That many zeros, then a 1.
  void PutUnary(uint32_t zeros) {
    for (; zeros > 24; zeros -= 24) Put(0, 24);
    Put(uint32_t{1} << zeros, zeros + 1);
  }
  // Fills up the last byte.
  void Flush() {
    if (filled_ > 0) TakeByte();
    filled_ = 0;
    word_ = 0;
  }

 private:
  void TakeByte() {
    bytes_->push_back(static_cast<unsigned char>(word_));
    word_ >>= 8;
    filled_ -= filled_ < 8 ? filled_ : 8;
  }

  std::vector<unsigned char>* const bytes_;
  uint64_t word_ = 0;
  uint32_t filled_ = 0;
};

// Zeros follow the last byte; `overrun` tells that some were read.
class BitReader {
 public:
  explicit BitReader(absl::Span<const unsigned char> bytes) : bytes_(bytes) {}
  uint32_t Get(uint32_t bits) {  // 32 at most
    while (filled_ < bits) Fill();
    const auto value = static_cast<uint32_t>(word_ & ((uint64_t{1} << bits) - 1));
    word_ >>= bits;
    filled_ -= bits;
    taken_ += bits;
    return value;
  }
  // The zeros before the next 1, at most `limit`.
  uint32_t GetUnary(uint32_t limit) {
    uint32_t zeros = 0;
    while (zeros <= limit && Get(1) == 0) ++zeros;
    return zeros;
  }
  bool overrun() const { return taken_ > 8 * bytes_.size(); }
  // Bytes begun.
  size_t bytes_read() const { return (taken_ + 7) / 8; }

 private:
  void Fill() {
    const uint64_t byte = next_ < bytes_.size() ? bytes_[next_] : 0;
    ++next_;
    word_ |= byte << filled_;
    filled_ += 8;
  }

  const absl::Span<const unsigned char> bytes_;
  size_t next_ = 0;
  size_t taken_ = 0;  // bits
  uint64_t word_ = 0;
  uint32_t filled_ = 0;
};

}  // namespace tally
