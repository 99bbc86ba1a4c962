#include "common/checkpoint/paths.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tally {

std::string TemporaryBeside(const std::string& path) {
  static std::atomic<uint64_t> next{0};
  return absl::StrCat(path, ".tmp.", ::getpid(), ".", next.fetch_add(1));
}

std::string FolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool IsPlainFileName(absl::string_view name) {
  constexpr size_t kLongestName = 255;
  const bool forbidden = name.find('/') != name.npos || name.find('\0') != name.npos;
  return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." && !forbidden;
}

}  // namespace tally
