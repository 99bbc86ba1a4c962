// A program started by a test. It dies with its object, and with the test.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tally::testing {

// How long anything may take before a test says that it never happened; generous, since it is only
// waited for in full when something is wrong.
inline constexpr absl::Duration kPatience = absl::Seconds(100);

// Records a fatal failure and unwinds the test.
[[noreturn]] void GiveUp(const std::string& why);
// Polls until `condition` holds; gives up, saying that it waited for `what`, after kPatience.
void WaitUntil(const std::function<bool()>& condition, const std::function<std::string()>& what);

class Process {
 public:
  // Standard output and error are appended to `out` and `err`, which may be the same file.
  Process(std::vector<std::string> command, const std::string& out, const std::string& err,
          const std::map<std::string, std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Waits for its end. The exit code, or minus the signal that ended it.
  int Wait();
  bool running();
  // kill -9, and waits.
  void Kill();

 private:
  pid_t pid_ = -1;
  std::optional<int> result_;  // once it has been waited for
  const std::string name_;
};

}  // namespace tally::testing
