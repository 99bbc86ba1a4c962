#include "tests/system/small_disk.h"

#include <string.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tally::testing {
namespace {

std::string Filler(const std::string& folder) { return folder + "/filler"; }

}  // namespace

SmallDisk::SmallDisk(const std::string& folder, uint64_t bytes) : folder_(folder) {
  std::filesystem::create_directories(folder);
  const std::string size = absl::StrCat("size=", bytes);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size.c_str()) == 0) return;
  error_ = absl::StrCat("no tmpfs may be mounted here: ", ::strerror(errno));
}

SmallDisk::~SmallDisk() {
  if (error_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
}

void SmallDisk::Fill(uint64_t left) const {
  const uint64_t room = std::filesystem::space(folder_).available;
  std::ofstream file(Filler(folder_), std::ios::binary);
  file << std::string(room > left ? room - left : 0, '\0');
}

void SmallDisk::MakeRoom() const { std::filesystem::remove(Filler(folder_)); }

}  // namespace tally::testing
