#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tally {

// A file's bytes from front to back: plain files by mmap, names ending in .gz through zlib.
class ByteStream {
 public:
  static absl::StatusOr<std::unique_ptr<ByteStream>> Open(const std::string& path);
  virtual ~ByteStream() = default;

  // Exactly `size` bytes. DATA_LOSS with the path when the file ends before, or is damaged.
  virtual absl::Status Read(char* out, uint64_t size) = 0;
  virtual absl::Status Skip(uint64_t size) = 0;
  // Whether there is nothing behind the bytes read. Damage at the end (a checksum) shows here.
  virtual absl::StatusOr<bool> AtEnd() = 0;
};

}  // namespace tally
