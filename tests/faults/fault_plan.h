// Which fault points do what: the text of the environment variable TALLY_FAULT, understood.
//
//   plan := rule ("," rule)*
//   rule := point ":" action [":" number] [":while=" path]
//   action := "kill" | the name of an errno, as in ENOSPC
//
// Without a number a kill means the first passing and an errno every passing; with one, that passing
// alone. With a path only passings count at which that file exists.
//
//   ledger.mid_record:kill:3,ledger.append_errno:ENOSPC:while=/tmp/full
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace tally::testing {

// What a rule says, and how far it has come.
struct FaultRule {
  int error = 0;  // 0: kill
  int number = 0;
  std::string path;
  int passings = 0;
  bool limited = false;  // its passings are counted by FaultLimit
  bool due = false;      // FaultLimit has cut the write that it dies in
};

// Thread-safe.
class FaultPlan {
 public:
  // INVALID_ARGUMENT naming the rule.
  static absl::StatusOr<FaultPlan> Parse(absl::string_view text);
  FaultPlan() = default;
  FaultPlan(FaultPlan&& other) : rules_(std::move(other.rules_)) {}

  // Whether to die now.
  bool Passes(absl::string_view point);
  // The errno to fail with; 0: none.
  int Errno(absl::string_view point);
  // Half of `size` if the process is to die in between; Passes() is called after the first half.
  size_t Limit(absl::string_view point, size_t size);

 private:
  using Rules = std::multimap<std::string, FaultRule, std::less<>>;
  explicit FaultPlan(Rules rules) : rules_(std::move(rules)) {}

  absl::Mutex mutex_;
  Rules rules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally::testing
