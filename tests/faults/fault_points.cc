// The fault points as the tests' own programs have them: linked as an object, so that the product's
// definitions stay in their library.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/fault_point.h"
#include "tests/faults/fault_plan.h"

namespace tally {
namespace {

testing::FaultPlan PlanOfEnvironment() {
  const char* text = std::getenv("TALLY_FAULT");
  absl::StatusOr<testing::FaultPlan> plan = testing::FaultPlan::Parse(text == nullptr ? "" : text);
  if (plan.ok()) return *std::move(plan);
  std::fprintf(stderr, "%s\n", std::string(plan.status().message()).c_str());
  std::abort();
}

testing::FaultPlan& Plan() {
  static testing::FaultPlan& plan = *new testing::FaultPlan(PlanOfEnvironment());
  return plan;
}

// In one write and without a buffer: nothing is flushed after the kill.
void Say(const char* name, const char* what) {
  const std::string line = absl::StrCat("fault point ", name, ": ", what, "\n");
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void FaultPoint(const char* name) {
  if (!Plan().Passes(name)) return;
  Say(name, "kill");
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();  // this thread goes no further
}

int FaultErrno(const char* name) {
  const int error = Plan().Errno(name);
  if (error != 0) Say(name, "fails");
  return error;
}

size_t FaultLimit(const char* name, size_t size) { return Plan().Limit(name, size); }

}  // namespace tally
