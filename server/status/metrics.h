// Counters of the server for Prometheus. Units are base units; no label ever names a job or worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/status/status_source.h"

namespace prometheus {
class Registry;
class Counter;
class Histogram;
template <typename T>
class Family;
}  // namespace prometheus

namespace tally {

// Thread-safe; every method is cheap enough for each round.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  // From a round's opening to its closing.
  void RoundClosed(absl::Duration duration);
  // Payload bytes of contributions in all, and of an aggregate once.
  void ContributionBytes(uint64_t bytes);
  void AggregateBytes(uint64_t bytes);
  // A contribution that did not count. `reason` is one of a few fixed words: late, damaged, abstained.
  void Refused(const std::string& reason);
  void JobSubmitted();

  // The Prometheus text format, with gauges of `snapshot` beside the counters.
  std::string Text(const StatusSnapshot& snapshot) const;

 private:
  std::unique_ptr<prometheus::Registry> registry_;
  prometheus::Counter* rounds_closed_;
  prometheus::Counter* contribution_bytes_;
  prometheus::Counter* aggregate_bytes_;
  prometheus::Counter* jobs_submitted_;
  prometheus::Family<prometheus::Counter>* refused_;
  prometheus::Histogram* round_duration_;
};

}  // namespace tally
