#include "common/reduction/majority/majority.h"

#include <algorithm>

#include "common/base/random.h"
#include "common/base/status.h"

namespace tally {
namespace {

void AppendWords(const std::vector<uint64_t>& words, Bytes* bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(words.data());
  bytes->insert(bytes->end(), data, data + words.size() * kWordBytes);
}

class MajorityWriter : public VoteWriter {
 public:
  MajorityWriter(const ChunkContext& context, Bytes* payload)
      : context_(context), lanes_(LaneCount(context.count)), payload_(*payload) {
    payload_.clear();
    payload_.reserve(MajorityPayloadBytes(context.count, context.zero_ties, true));
    payload_.resize(kHeadBytes);
    if (context.zero_ties) nonzero_.resize(lanes_);
  }

  void Append(const VoteCount& count) override {
    unsigned char* signs = GrowSigns(count.lanes());
    unsigned char* nonzero = context_.zero_ties ? NonzeroBytes() : nullptr;
    const TieRule rule{context_.tie_key, context_.first_lane + next_lane_};
    DecideMajority(count.planes(), count.stride(), count.lanes(), count.voters(), rule, signs,
                   nonzero);
    if (count.any_silent()) DecideSilentLanes(count, signs);
    next_lane_ += count.lanes();
  }

  // In one pass where the count itself is not needed afterwards.
  void AppendVotes(absl::Span<const SignView> views) override {
    const auto has_mask = [](const SignView& view) { return view.lane_mask != nullptr; };
    if (context_.zero_ties || std::any_of(views.begin(), views.end(), has_mask)) {
      return VoteWriter::AppendVotes(views);
    }
    const unsigned char* voters[kMaxVoters];
    for (size_t i = 0; i < views.size(); ++i) voters[i] = views[i].signs;
    const size_t lanes = views[0].lanes;
    VoteMajority(absl::MakeConstSpan(voters, views.size()), lanes,
                 {context_.tie_key, context_.first_lane + next_lane_}, GrowSigns(lanes));
    next_lane_ += lanes;
  }

  void Finish() override {
    if (context_.zero_ties) AppendNonzero();
    if (!lane_mask_.empty()) {
      payload_[0] |= kMajorityHasLaneMask;
      AppendWords(lane_mask_, &payload_);
    }
  }

 private:
  // Room for the signs of the next lanes. Grown block by block: the zeros that resize writes are
  // still in the first cache when the signs overwrite them.
  unsigned char* GrowSigns(size_t lanes) {
    const size_t old_size = payload_.size();
    payload_.resize(old_size + lanes * kWordBytes);
    return payload_.data() + old_size;
  }

  unsigned char* NonzeroBytes() {
    return reinterpret_cast<unsigned char*>(nonzero_.data() + next_lane_);
  }

  // Again, by its own number of voters, each lane in which somebody was silent.
  void DecideSilentLanes(const VoteCount& count, unsigned char* signs) {
    for (size_t i = 0; i < count.lanes(); ++i) {
      const size_t voters = count.LaneVoters(i);
      if (voters == count.voters()) continue;
      if (voters == 0) MarkSilent(next_lane_ + i);
      DecideLane(count, i, voters, signs);
    }
  }

  void DecideLane(const VoteCount& count, size_t i, size_t voters, unsigned char* signs) {
    LaneMajority result;
    if (voters > 0) {
      result = CompareLane(count.planes(), count.stride(), count.plane_count(), i, voters);
    }
    const uint64_t nonzero = voters > 0 ? ~result.tied : 0;
    if (context_.zero_ties) {
      nonzero_[next_lane_ + i] = nonzero;
    } else if (result.tied != 0) {
      result.above |=
          result.tied & RandomWord(context_.tie_key, context_.first_lane + next_lane_ + i);
    }
    StoreWord(signs, i, result.above);
  }

  void MarkSilent(size_t lane) {
    if (lane_mask_.empty()) {
      lane_mask_.assign(MaskWords(lanes_), ~uint64_t{0});
      lane_mask_.back() = LastWordBits(lanes_);
    }
    lane_mask_[lane / 64] &= ~(uint64_t{1} << (lane % 64));
  }

  bool Voted(size_t lane) const {
    return lane_mask_.empty() || ((lane_mask_[lane / 64] >> (lane % 64)) & 1);
  }

  // Left out if nothing tied.
  void AppendNonzero() {
    nonzero_.back() &= LastWordBits(context_.count);
    bool any_tie = false;
    for (size_t lane = 0; lane < lanes_ && !any_tie; ++lane) {
      const uint64_t all = lane + 1 < lanes_ ? ~uint64_t{0} : LastWordBits(context_.count);
      any_tie = Voted(lane) && nonzero_[lane] != all;
    }
    if (!any_tie) return;
    payload_[0] |= kMajorityHasNonzero;
    AppendWords(nonzero_, &payload_);
  }

  const ChunkContext context_;
  const size_t lanes_;
  size_t next_lane_ = 0;
  Bytes& payload_;                   // head and signs so far
  std::vector<uint64_t> nonzero_;    // all lanes, with zero_ties only
  std::vector<uint64_t> lane_mask_;  // empty until a lane has no voters
};

float SignOf(const MajorityView& view, size_t element) {
  const size_t lane = element / kLaneElements;
  const bool tied = view.nonzero != nullptr && !WordBit(view.nonzero, element);
  if (!view.voted(lane) || tied) return 0;
  return WordBit(view.signs, element) ? 1 : -1;
}

}  // namespace

size_t Majority::MaxAggregateBytes(uint32_t count, uint32_t /*voters*/) const {
  return MajorityPayloadBytes(count, true, true);
}

absl::StatusOr<std::vector<float>> Majority::Unpack(const ChunkContext& context,
                                                    ByteSpan aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const MajorityView view, ParseMajority(context.count, aggregate));
  std::vector<float> values(context.count);
  for (size_t i = 0; i < context.count; ++i) values[i] = SignOf(view, i);
  return values;
}

std::unique_ptr<VoteWriter> Majority::NewWriter(const ChunkContext& context,
                                                size_t /*voters*/, Bytes* aggregate) const {
  return std::make_unique<MajorityWriter>(context, aggregate);
}

}  // namespace tally
