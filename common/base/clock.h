// Time, injected so that tests decide what it is. Deadlines are durations on a steady clock.
#pragma once

#include "absl/time/time.h"

namespace tally {

class Clock {
 public:
  virtual ~Clock() = default;
  // Steady: never goes back. The zero point means nothing.
  virtual absl::Duration Steady() const = 0;
  // For people and logs only.
  virtual absl::Time Wall() const = 0;

  // The machine's clock; never destroyed.
  static const Clock& System();
};

// A clock that stands still until told to go on. Not thread-safe.
class ManualClock : public Clock {
 public:
  absl::Duration Steady() const override { return steady_; }
  absl::Time Wall() const override { return absl::UnixEpoch() + steady_; }
  void Advance(absl::Duration step) { steady_ += step; }

 private:
  absl::Duration steady_ = absl::ZeroDuration();
};

}  // namespace tally
