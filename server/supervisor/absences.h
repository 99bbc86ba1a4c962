// How long a job's workers have been without a session. Pure of threads and clocks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tally {

class Absences {
 public:
  // To be called often. `members` by place, "" for a vacant one; `now` on a steady clock. Returns
  // those that were not there at any call for at least `limit`; a limit of zero means never. What
  // was before the first call is not known, so a server's restart starts the time anew.
  std::vector<std::string> Overdue(absl::Span<const std::string> members,
                                   const std::function<bool(const std::string&)>& is_there,
                                   absl::Duration now, absl::Duration limit);

 private:
  std::map<std::string, absl::Duration> since_;  // by worker
};

}  // namespace tally
