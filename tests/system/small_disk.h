// A file system of a few MiB, to be full.
#pragma once

#include <cstdint>
#include <string>

namespace tally::testing {

// A tmpfs on the folder, which it makes; gone with the object.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, uint64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Why there is none; empty if there is.
  const std::string& error() const { return error_; }
  // Takes all room but that much.
  void Fill(uint64_t left) const;
  // Gives back what Fill took.
  void MakeRoom() const;

 private:
  const std::string folder_;
  std::string error_;
};

}  // namespace tally::testing
