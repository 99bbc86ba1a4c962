#include "server/supervisor/absences.h"

#include <utility>

namespace tally {

std::vector<std::string> Absences::Overdue(absl::Span<const std::string> members,
                                           const std::function<bool(const std::string&)>& is_there,
                                           absl::Duration now, absl::Duration limit) {
  std::vector<std::string> overdue;
  std::map<std::string, absl::Duration> since;
  for (const std::string& member : members) {
    if (member.empty() || is_there(member)) continue;
    const auto before = since_.find(member);
    const absl::Duration gone = before == since_.end() ? now : before->second;
    since[member] = gone;
    if (limit > absl::ZeroDuration() && now - gone >= limit) overdue.push_back(member);
  }
  since_ = std::move(since);
  return overdue;
}

}  // namespace tally
