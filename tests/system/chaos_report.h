// What a chaos run did, and how soon rounds closed again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/system/chaos_schedule.h"

namespace tally::testing {

// A fault's recovery is the time until the next round is in the ledger: from the death, the cut, or
// the end of the freeze, stall or pause, to when the test saw it. Restarts are within it.
class ChaosReport {
 public:
  // The ledger had `round` then.
  void Begin(const Fault& fault, uint64_t round);
  // The last fault's clock starts now and not at its Begin.
  void StartClock(uint64_t round);
  // Of the last fault: what it came to.
  void Note(const std::string& note);
  void Observe(uint64_t round);

  size_t recovered() const;
  // One line a fault.
  std::string Events() const;
  // Faults by kind, recovery.
  std::string Summary() const;

 private:
  struct Line {
    Fault fault;
    uint64_t round;
    absl::Time since;
    absl::Duration recovery = absl::InfiniteDuration();
    std::string note;
    std::string ToString() const;
  };
  std::vector<Line> lines_;
};

}  // namespace tally::testing
