#include "server/round/membership.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tally {
namespace {

bool IsWorkerName(const std::string& name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace

absl::Status Membership::Join(const v1::Hello& hello, const std::string& address,
                              absl::Duration now, absl::Time wall) {
  if (!IsWorkerName(hello.name())) {
    return absl::InvalidArgumentError(
        "worker name: expected 1 to 64 characters of [A-Za-z0-9._-]");
  }
  if (hello.instance().empty()) return absl::InvalidArgumentError("worker instance: missing");
  const auto found = workers_.find(hello.name());
  if (found != workers_.end() && found->second.hello.instance() != hello.instance() &&
      now - found->second.last_heard < lease_) {
    return absl::AlreadyExistsError(absl::StrCat(
        "worker name ", hello.name(), ": in use by another daemon at ", found->second.address,
        "; give this one another name, or wait until that one's lease has ended"));
  }
  workers_[hello.name()] = {hello, address, now, wall, ""};
  return absl::OkStatus();
}

bool Membership::Heard(const std::string& name, const std::string& instance, absl::Duration now) {
  const auto found = workers_.find(name);
  if (found == workers_.end() || found->second.hello.instance() != instance) return false;
  found->second.last_heard = now;
  return true;
}

bool Membership::Leave(const std::string& name, const std::string& instance) {
  const auto found = workers_.find(name);
  if (found == workers_.end() || found->second.hello.instance() != instance) return false;
  workers_.erase(found);
  return true;
}

std::vector<LiveWorker> Membership::Expire(absl::Duration now) {
  std::vector<LiveWorker> gone;
  for (auto it = workers_.begin(); it != workers_.end();) {
    if (now - it->second.last_heard < lease_) {
      ++it;
      continue;
    }
    gone.push_back(std::move(it->second));
    it = workers_.erase(it);
  }
  return gone;
}

void Membership::Assign(const std::string& name, const std::string& job_id) {
  const auto found = workers_.find(name);
  if (found != workers_.end()) found->second.job_id = job_id;
}

const LiveWorker* Membership::Find(const std::string& name) const {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

}  // namespace tally
