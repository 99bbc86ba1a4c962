// The two sides that catch_up_bench compares.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tally::bench {

struct MissedRounds {
  uint64_t parameters = 1'000'000;
  uint64_t rounds = 1000;
};

// A job's folder whose ledger has these rounds of random majorities.
absl::Status WriteMissedRounds(const MissedRounds& missed, const std::string& folder);
uint64_t LedgerBytes(const std::string& folder);

// Servers print "PORT n", then serve until SIGTERM. Joiners print "CAUGHT seconds": from the stream's
// opening to the open round, or to the last byte. All return an exit code.
int ServeMissedRounds(const MissedRounds& missed, const std::string& folder);
int JoinLate(const MissedRounds& missed, const std::string& server, bool apply);
int StreamFiles(const std::string& folder);
int ReceiveStream(const std::string& server);

}  // namespace tally::bench
