#include "common/reduction/sign_mean/sign_mean.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace tally {
namespace {

class SignMeanWriter : public VoteWriter {
 public:
  SignMeanWriter(uint32_t count, size_t voters, Bytes* payload)
      : count_(count), voters_(voters), lanes_(LaneCount(count)), payload_(*payload) {
    payload_.reserve(SignMeanPayloadBytes(count, voters, true));
    payload_.resize(SignMeanPayloadBytes(count, voters, false));
    std::fill_n(payload_.begin(), kHeadBytes, 0);
    payload_[1] = static_cast<unsigned char>(voters);
  }

  void Append(const VoteCount& count) override {
    for (size_t k = 0; k < count.plane_count(); ++k) {
      unsigned char* plane = payload_.data() + kHeadBytes + (k * lanes_ + next_lane_) * kWordBytes;
      std::memcpy(plane, count.planes() + k * count.stride(), count.lanes() * kWordBytes);
    }
    if (count.any_silent()) NoteLaneVoters(count);
    next_lane_ += count.lanes();
  }

  void Finish() override {
    if (!lane_voters_.empty()) {
      payload_[0] |= kSignMeanHasLaneVoters;
      payload_.insert(payload_.end(), lane_voters_.begin(), lane_voters_.end());
      payload_.resize(SignMeanPayloadBytes(count_, voters_, true));
    }
  }

 private:
  void NoteLaneVoters(const VoteCount& count) {
    for (size_t i = 0; i < count.lanes(); ++i) {
      const size_t voters = count.LaneVoters(i);
      if (voters == voters_) continue;
      if (lane_voters_.empty()) lane_voters_.assign(lanes_, static_cast<uint8_t>(voters_));
      lane_voters_[next_lane_ + i] = static_cast<uint8_t>(voters);
    }
  }

  const uint32_t count_;
  const size_t voters_;
  const size_t lanes_;
  size_t next_lane_ = 0;
  Bytes& payload_;
  std::vector<uint8_t> lane_voters_;  // empty until some lane has other than all
};

}  // namespace

absl::StatusOr<std::vector<float>> SignMean::Unpack(const ChunkContext& context,
                                                    ByteSpan aggregate) const {
  TALLY_ASSIGN_OR_RETURN(const SignMeanView view, ParseSignMean(context.count, aggregate));
  std::vector<float> values(context.count);
  for (size_t i = 0; i < context.count; ++i) {
    const size_t lane = i / kLaneElements;
    int plus = 0;
    for (size_t k = 0; k < view.plane_count; ++k) {
      plus |= static_cast<int>((view.word(k, lane) >> (i % kLaneElements)) & 1) << k;
    }
    const int voters = static_cast<int>(view.LaneVoters(lane));
    if (voters > 0) values[i] = static_cast<float>(2 * plus - voters) / static_cast<float>(voters);
  }
  return values;
}

std::unique_ptr<VoteWriter> SignMean::NewWriter(const ChunkContext& context, size_t voters,
                                                Bytes* aggregate) const {
  return std::make_unique<SignMeanWriter>(context.count, voters, aggregate);
}

}  // namespace tally
