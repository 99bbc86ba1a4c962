// What the chaos test does to a cluster, and when: a pure function of a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tally::testing {

enum class FaultKind {
  // To a worker's process.
  kKillWorker,    // and start it again
  kStopWorker,    // SIGTERM, and start it again
  kFreezeWorker,  // SIGSTOP, and SIGCONT later
  // To the network between workers and server.
  kCutOne,
  kCutAll,
  kStall,
  // To the server's process.
  kFreezeServer,
  kKillServer,   // and start it again, as with all that follow
  kCrashServer,  // by its own hand at a fault point
  kLoseTail,     // as with the machine: what was not synced is gone
  kStopServer,   // SIGTERM
  // By people.
  kPauseJob,     // and resume it
  kAddWorker,    // to the running job
};

absl::string_view NameOf(FaultKind kind);
// Fault points that a server passes again and again while a job runs.
absl::Span<const char* const> CrashPoints();

struct Fault {
  FaultKind kind;
  uint64_t round = 0;   // it comes when the ledger has this round
  uint64_t number = 0;  // which worker, connection, ...: modulo how many there are
  uint64_t length = 0;  // of a freeze or stall, in milliseconds
  std::string point;    // of kCrashServer
  std::string ToString() const;
};

// `count` faults within the first nine tenths of `rounds`, by round, in three equal parts: in the
// first the server's process lives, in the second the workers' processes do (so that what either
// accumulates shows), in the third anything goes. All kinds that a part allows occur in it if it is
// long enough; one worker is added.
std::vector<Fault> MakeSchedule(uint64_t seed, size_t count, uint64_t rounds);

}  // namespace tally::testing
