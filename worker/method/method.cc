#include "worker/method/method.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tally {

MethodStateCopy Method::CopyState() {
  MethodStateCopy copy;
  for (const MethodState& state : State()) {
    copy[state.name].assign(state.values.begin(), state.values.end());
  }
  return copy;
}

absl::Status Method::Restore(const MethodStateCopy& copy) {
  const std::vector<MethodState> states = State();
  if (copy.size() != states.size()) {
    return absl::InvalidArgumentError(absl::StrCat("method state: expected ", states.size(),
                                                   " arrays, found ", copy.size()));
  }
  for (const MethodState& state : states) {
    const auto found = copy.find(state.name);
    if (found == copy.end()) {
      return absl::InvalidArgumentError(absl::StrCat("method state ", state.name, ": missing"));
    }
    if (found->second.size() != state.values.size()) {
      return absl::InvalidArgumentError(absl::StrCat("method state ", state.name, ": expected ",
                                                     state.values.size(), " values, found ",
                                                     found->second.size()));
    }
  }
  for (const MethodState& state : states) {
    std::copy_n(copy.at(state.name).begin(), state.values.size(), state.values.begin());
  }
  Restored();
  return absl::OkStatus();
}

}  // namespace tally
