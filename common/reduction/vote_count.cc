#include "common/reduction/vote_count.h"

#include <algorithm>
#include <bit>

namespace tally {

void VoteCount::Reset(size_t lanes) {
  lanes_ = lanes;
  voters_ = 0;
  any_silent_ = false;
}

void VoteCount::Add(absl::Span<const SignView> views) {
  const unsigned char* words[kMaxVoters];
  for (size_t i = 0; i < views.size(); ++i) {
    words[i] = views[i].signs;
    if (views[i].lane_mask != nullptr) CountSilent(views[i]);
  }
  const size_t needed = PlaneCount(voters_ + views.size()) * lanes_;
  if (planes_.size() < needed) planes_.resize(needed);
  AddVotes(absl::MakeConstSpan(words, views.size()), lanes_, voters_, planes_.data(), lanes_);
  voters_ += views.size();
}

void VoteCount::CountSilent(const SignView& view) {
  if (!any_silent_) silent_.assign(lanes_, 0);
  any_silent_ = true;
  for (size_t word = 0; word < MaskWords(lanes_); ++word) {
    const size_t bits = std::min<size_t>(64, lanes_ - word * 64);
    uint64_t silent = ~LoadWord(view.lane_mask, word) & LastWordBits(bits);
    for (; silent != 0; silent &= silent - 1) ++silent_[word * 64 + std::countr_zero(silent)];
  }
}

size_t VoteCount::memory() const {
  return planes_.capacity() * sizeof(uint64_t) + silent_.capacity();
}

}  // namespace tally
