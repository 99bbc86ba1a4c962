// What local steps move: all trained parameters in place, or the elements of a mask, gathered and
// scattered. The bytes of all others are never written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/update/mask.h"

namespace tally {

// Not thread-safe. Memory with a mask: 16 bytes an element of it. Without: none.
class LocalParameters {
 public:
  // `x`: the trained parameters; it outlives the object. `mask` is null for all of them.
  LocalParameters(absl::Span<float> x, const Mask* mask) : x_(x), masked_(mask != nullptr) {
    if (!masked_) return;
    indices_ = mask->FlatIndices();
    values_.resize(indices_.size());
    gathered_.resize(indices_.size());
  }

  size_t size() const { return masked_ ? indices_.size() : x_.size(); }
  // What it moves, as it is now.
  absl::Span<float> Take() {
    if (!masked_) return x_;
    for (size_t i = 0; i < indices_.size(); ++i) values_[i] = x_[indices_[i]];
    return absl::MakeSpan(values_);
  }
  // Puts what Take has returned, changed meanwhile, in its place.
  void Put() {
    for (size_t i = 0; i < indices_.size(); ++i) x_[indices_[i]] = values_[i];
  }
  // Exchanges what it moves for `other`, of size().
  void Swap(std::vector<float>& other) {
    const absl::Span<float> moved = Take();
    std::swap_ranges(moved.begin(), moved.end(), other.begin());
    Put();
  }
  // Those of an array as large as x, or larger: of its gradient. Good until the next call.
  absl::Span<const float> Gather(absl::Span<const float> all) {
    if (!masked_) return all.first(x_.size());
    for (size_t i = 0; i < indices_.size(); ++i) gathered_[i] = all[indices_[i]];
    return gathered_;
  }

 private:
  const absl::Span<float> x_;
  const bool masked_;
  std::vector<uint64_t> indices_;
  std::vector<float> values_, gathered_;
};

}  // namespace tally
