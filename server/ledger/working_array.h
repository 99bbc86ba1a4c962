// Floats that are worked on in a file: its pages are the kernel's to write out and fetch again, not
// the process's own memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file.h"

namespace tally {

// Movable. The file has no name once this is made, so nothing of it is left, however the process
// ends.
//
// Its disk space is claimed at once: a full disk is RESOURCE_EXHAUSTED here and not a signal at
// some later write. That holds where a file is overwritten in place (ext4, XFS, tmpfs); a file
// system that copies on write (btrfs) or a network's may still run out later. The copy is therefore
// a real one, not a reflink.
class WorkingArray {
 public:
  static absl::StatusOr<WorkingArray> Zeros(const std::string& folder, uint64_t count);
  static absl::StatusOr<WorkingArray> CopyOf(const std::string& folder,
                                             absl::Span<const float> values);

  // Valid while this or what it was moved to lives.
  absl::Span<float> values() { return values_; }
  absl::Span<const float> values() const { return values_; }

 private:
  WorkingArray(std::unique_ptr<MappedFile> file, absl::Span<float> values)
      : file_(std::move(file)), values_(values) {}
  static absl::StatusOr<WorkingArray> Make(const std::string& folder, uint64_t count,
                                           absl::string_view contents);

  std::unique_ptr<MappedFile> file_;
  absl::Span<float> values_;
};

}  // namespace tally
