#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace tally {
namespace {

class SystemClock : public Clock {
 public:
  absl::Duration Steady() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time Wall() const override { return absl::Now(); }
};

}  // namespace

const Clock& Clock::System() {
  static const SystemClock* const clock = new SystemClock;
  return *clock;
}

}  // namespace tally
