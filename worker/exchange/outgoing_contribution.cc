#include "worker/exchange/outgoing_contribution.h"

#include <utility>

#include "common/base/digest.h"
#include "common/wire/frame.h"

namespace tally {

void OutgoingContribution::Begin(const v1::RoundSpec& spec) {
  spec_ = spec;
  chunks_.clear();
  end_.reset();
}

bool OutgoingContribution::IsFor(const v1::RoundSpec& spec) const {
  return end_.has_value() && spec_.SerializeAsString() == spec.SerializeAsString();
}

void OutgoingContribution::AddChunk(uint32_t index, Bytes payload, ExchangeClient* client) {
  KeptChunk chunk;
  v1::ChunkHeader* header = chunk.frame.mutable_chunk();
  header->set_kind(v1::ROUND);
  header->set_round(spec_.round());
  header->set_index(index);
  header->set_digest(Digest64(payload.data(), payload.size()));
  chunk.payload = OwnedSlice(std::move(payload));
  if (client != nullptr) client->Send(chunk.frame, {chunk.payload});
  chunks_[index] = std::move(chunk);
}

void OutgoingContribution::End(v1::ContributionEnd end, ExchangeClient* client) {
  Digester digester;
  for (const auto& [index, chunk] : chunks_) digester.AddUint64(chunk.frame.chunk().digest());
  end.set_round(spec_.round());
  end.set_chunks(static_cast<uint32_t>(chunks_.size()));
  end.set_digest(digester.Finish());
  end_.emplace();
  *end_->mutable_end() = std::move(end);
  if (client != nullptr) client->Send(*end_);
}

void OutgoingContribution::SendAgain(ExchangeClient* client) const {
  for (const auto& [index, chunk] : chunks_) client->Send(chunk.frame, {chunk.payload});
  if (end_.has_value()) client->Send(*end_);
}

}  // namespace tally
