#include "tests/system/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

extern char** environ;

namespace tally::testing {
namespace {

constexpr int kNewFile = O_WRONLY | O_CREAT | O_APPEND;

std::vector<std::string> Environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    if (!changes.contains(line.substr(0, line.find('=')))) all.push_back(line);
  }
  for (const auto& [name, value] : changes) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void GiveUp(const std::string& why) {
  ADD_FAILURE() << why;
  throw ::testing::AssertionException(::testing::TestPartResult(
      ::testing::TestPartResult::kFatalFailure, __FILE__, __LINE__, why.c_str()));
}

void WaitUntil(const std::function<bool()>& condition, const std::function<std::string()>& what) {
  const absl::Time end = absl::Now() + kPatience;
  absl::Duration pause = absl::Milliseconds(2);
  while (!condition()) {
    if (absl::Now() > end) GiveUp(absl::StrCat("waited in vain for ", what()));
    absl::SleepFor(pause);  // another process is watched: there is only polling
    pause = std::min(pause * 2, absl::Milliseconds(50));
  }
}

Process::Process(std::vector<std::string> command, const std::string& out, const std::string& err,
                 const std::map<std::string, std::string>& environment)
    : name_(command.front()) {
  // Should this test be killed, nothing that it started is left.
  command.insert(command.begin(), {"/usr/bin/setpriv", "--pdeathsig", "KILL"});
  std::vector<std::string> variables = Environment(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kNewFile, 0644);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kNewFile, 0644);
  const int error = ::posix_spawn(&pid_, "/usr/bin/setpriv", &actions, nullptr,
                                  Pointers(command).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) GiveUp(absl::StrCat("cannot start ", name_, ": ", ::strerror(error)));
}

Process::~Process() { Kill(); }

void Process::Signal(int signal) {
  if (running()) ::kill(pid_, signal);
}

bool Process::running() {
  if (result_.has_value()) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  result_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return false;
}

int Process::Wait() {
  WaitUntil([this] { return !running(); }, [this] { return absl::StrCat("the end of ", name_); });
  return *result_;
}

void Process::Kill() {
  if (!running()) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  result_ = -SIGKILL;
}

}  // namespace tally::testing
