#include "tests/faults/fault_plan.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"

namespace tally::testing {
namespace {

absl::Status BadRule(absl::string_view rule, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("fault \"", rule, "\": expected ", expected));
}

absl::StatusOr<int> ParseAction(absl::string_view rule, absl::string_view action) {
  const std::pair<absl::string_view, int> actions[] = {
      {"kill", 0}, {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EMFILE", EMFILE}};
  for (const auto& [name, error] : actions) {
    if (name == action) return error;
  }
  return BadRule(rule, "kill or an errno for an action");
}

absl::StatusOr<FaultRule> ParseRule(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ':');
  if (words.size() < 2 || words[0].empty()) return BadRule(text, "point:action");
  FaultRule rule;
  TALLY_ASSIGN_OR_RETURN(rule.error, ParseAction(text, words[1]));
  for (size_t i = 2; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (absl::ConsumePrefix(&word, "while=")) {
      rule.path = std::string(word);
    } else if (!absl::SimpleAtoi(word, &rule.number) || rule.number < 1) {
      return BadRule(text, "a number from 1, or while=path");
    }
  }
  if (rule.error == 0 && rule.number == 0) rule.number = 1;
  return rule;
}

bool Counts(const FaultRule& rule) {
  return rule.path.empty() || ::access(rule.path.c_str(), F_OK) == 0;
}

// One passing more: is it the one?
bool Count(FaultRule& rule) {
  if (!Counts(rule)) return false;
  ++rule.passings;
  return rule.number == 0 || rule.passings == rule.number;
}

}  // namespace

absl::StatusOr<FaultPlan> FaultPlan::Parse(absl::string_view text) {
  Rules rules;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    TALLY_ASSIGN_OR_RETURN(FaultRule rule, ParseRule(part));
    rules.emplace(std::string(part.substr(0, part.find(':'))), std::move(rule));
  }
  return FaultPlan(std::move(rules));
}

bool FaultPlan::Passes(absl::string_view point) {
  absl::MutexLock lock(&mutex_);
  const auto [begin, end] = rules_.equal_range(point);
  for (auto it = begin; it != end; ++it) {
    FaultRule& rule = it->second;
    if (rule.error != 0) continue;
    if (rule.due || (!rule.limited && Count(rule))) return true;
  }
  return false;
}

int FaultPlan::Errno(absl::string_view point) {
  absl::MutexLock lock(&mutex_);
  const auto [begin, end] = rules_.equal_range(point);
  for (auto it = begin; it != end; ++it) {
    if (it->second.error != 0 && Count(it->second)) return it->second.error;
  }
  return 0;
}

size_t FaultPlan::Limit(absl::string_view point, size_t size) {
  absl::MutexLock lock(&mutex_);
  const auto [begin, end] = rules_.equal_range(point);
  for (auto it = begin; it != end; ++it) {
    FaultRule& rule = it->second;
    if (rule.error != 0) continue;
    rule.limited = true;
    rule.due = rule.due || Count(rule);
    if (rule.due) return size / 2;
  }
  return size;
}

}  // namespace tally::testing
