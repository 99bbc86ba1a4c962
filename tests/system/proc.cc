#include "tests/system/proc.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/system/cluster.h"

namespace tally::testing {
namespace {

// The number before " kB" in a line of /proc/PID/status.
long StatusLine(pid_t pid, const std::string& name) {
  const std::string status = Contents(absl::StrCat("/proc/", pid, "/status"));
  const size_t at = status.find(name);
  return at == std::string::npos ? -1 : std::stol(status.substr(at + name.size()));
}

long Entries(pid_t pid, const char* folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(absl::StrCat("/proc/", pid, folder), error);
  return error ? -1 : std::distance(begin(entries), end(entries));
}

}  // namespace

long ResidentKilobytes(pid_t pid) { return StatusLine(pid, "VmRSS:"); }
long AnonymousKilobytes(pid_t pid) { return StatusLine(pid, "RssAnon:"); }
long OpenDescriptors(pid_t pid) { return Entries(pid, "/fd"); }
long ThreadCount(pid_t pid) { return Entries(pid, "/task"); }

}  // namespace tally::testing
