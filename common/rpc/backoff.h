// Pauses between attempts: doubling, with jitter, so that many workers do not come back at once.
#pragma once

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/time.h"

namespace tally {

class Backoff {
 public:
  explicit Backoff(absl::Duration first = absl::Milliseconds(200),
                   absl::Duration longest = absl::Seconds(5))
      : first_(first), longest_(longest), next_(first) {}

  // Between half and all of the current pause, which doubles up to the longest.
  absl::Duration Next() {
    const absl::Duration pause = next_ * absl::Uniform(random_, 0.5, 1.0);
    next_ = std::min(next_ * 2, longest_);
    return pause;
  }
  // After a success.
  void Reset() { next_ = first_; }

 private:
  const absl::Duration first_;
  const absl::Duration longest_;
  absl::Duration next_;
  absl::BitGen random_;
};

}  // namespace tally
