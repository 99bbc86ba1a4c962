// Who is alive: leases kept by heartbeats, one live entry per worker name. Pure of threads and
// clocks; the caller holds its own lock and says what time it is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/tally/v1/training.pb.h"

namespace tally {

struct LiveWorker {
  v1::Hello hello;
  std::string address;
  absl::Duration last_heard;  // steady
  absl::Time registered;
  std::string job_id;  // empty while free
};

class Membership {
 public:
  // The lease ends when a worker was not heard for this long.
  explicit Membership(absl::Duration lease) : lease_(lease) {}

  // ALREADY_EXISTS while another instance of that name holds its lease: a second daemon with the
  // same name is refused, and a restarted one gets in as soon as the first's stream is closed or
  // its lease has ended. INVALID_ARGUMENT for a name that is none.
  absl::Status Join(const v1::Hello& hello, const std::string& address, absl::Duration now,
                    absl::Time wall);
  // False for a worker or instance that is not (or no longer) a member.
  bool Heard(const std::string& name, const std::string& instance, absl::Duration now);
  // Forgets the worker if this instance is the member.
  bool Leave(const std::string& name, const std::string& instance);
  // Removes and returns those whose lease has ended.
  std::vector<LiveWorker> Expire(absl::Duration now);

  void Assign(const std::string& name, const std::string& job_id);
  // Null for a name without a live entry.
  const LiveWorker* Find(const std::string& name) const;
  // By name.
  const std::map<std::string, LiveWorker>& workers() const { return workers_; }

 private:
  absl::Duration lease_;
  std::map<std::string, LiveWorker> workers_;
};

}  // namespace tally
