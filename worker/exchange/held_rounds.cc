#include "worker/exchange/held_rounds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/wire/frame.h"

namespace tally {

void HeldRounds::Add(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                     std::vector<Bytes> chunks) {
  if (!rounds_.empty() && rounds_.back().spec.round() + 1 != spec.round()) Clear();
  Round round{spec, closed, {}, 0};
  round.chunks.reserve(chunks.size());
  for (Bytes& chunk : chunks) {
    round.bytes += chunk.size();
    round.chunks.push_back(OwnedSlice(std::move(chunk)));
  }
  bytes_ += round.bytes;
  rounds_.push_back(std::move(round));
  while (bytes_ > max_bytes_ && rounds_.size() > 1) DropFirst();
}

void HeldRounds::DropFirst() {
  bytes_ -= rounds_.front().bytes;
  rounds_.pop_front();
}

void HeldRounds::DropUpTo(uint64_t round) {
  while (!rounds_.empty() && rounds_.front().spec.round() <= round) DropFirst();
}

void HeldRounds::Clear() {
  rounds_.clear();
  bytes_ = 0;
}

absl::Status HeldRounds::HandBack(uint64_t first, uint64_t last, SendFrame send) const {
  const uint64_t held_last = rounds_.empty() ? 0 : rounds_.back().spec.round();
  if (rounds_.empty() || first < this->first() || last > held_last || first > last) {
    return absl::NotFoundError(absl::StrCat("hand-back: expected rounds of ", this->first(), " to ",
                                            held_last, ", found ", first, " to ", last));
  }
  for (uint64_t round = first; round <= last; ++round) {
    Send(rounds_[round - this->first()], send);
  }
  return absl::OkStatus();
}

void HeldRounds::Send(const Round& round, SendFrame send) {
  v1::WorkerFrame begin;
  *begin.mutable_past_round() = round.spec;
  send(begin, {});
  for (uint32_t index = 0; index < round.chunks.size(); ++index) {
    const grpc::Slice& payload = round.chunks[index];
    v1::WorkerFrame frame;
    v1::ChunkHeader* header = frame.mutable_chunk();
    header->set_kind(v1::ROUND);
    header->set_round(round.spec.round());
    header->set_index(index);
    header->set_digest(Digest64(payload.begin(), payload.size()));
    send(frame, {payload});
  }
  v1::WorkerFrame end;
  *end.mutable_closed() = round.closed;
  send(end, {});
}

}  // namespace tally
