// The plus votes and the voters of a run of lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/reduction/sign_payload.h"
#include "common/reduction/vote_kernels.h"

namespace tally {

class VoteCount {
 public:
  explicit VoteCount(size_t lanes = 0) { Reset(lanes); }

  // Forgets all votes; keeps the memory.
  void Reset(size_t lanes);
  // Every view has lanes() lanes; at most kMaxVoters in all.
  void Add(absl::Span<const SignView> views);

  size_t lanes() const { return lanes_; }
  size_t voters() const { return voters_; }
  size_t plane_count() const { return PlaneCount(voters_); }
  const uint64_t* planes() const { return planes_.data(); }  // plane k at planes()[k * stride()]
  size_t stride() const { return lanes_; }

  // True if some voter was silent in some lane.
  bool any_silent() const { return any_silent_; }
  // Voters that were not silent in the lane.
  size_t LaneVoters(size_t lane) const { return any_silent_ ? voters_ - silent_[lane] : voters_; }

  size_t memory() const;

 private:
  void CountSilent(const SignView& view);

  size_t lanes_ = 0;
  size_t voters_ = 0;
  bool any_silent_ = false;
  std::vector<uint64_t> planes_;
  std::vector<uint8_t> silent_;  // silent voters of each lane, only while any_silent_
};

}  // namespace tally
