#include "worker/exchange/outgoing_contribution.h"

#include <iterator>
#include <string>
#include <utility>

#include "common/base/digest.h"
#include "common/wire/frame.h"

namespace tally {
namespace {

std::string WithoutDeadline(v1::RoundSpec spec) {
  spec.clear_deadline_ms();
  return spec.SerializeAsString();
}

}  // namespace

void OutgoingContribution::Begin(const v1::RoundSpec& spec) {
  spec_ = spec;
  chunks_.clear();
  end_.reset();
}

bool OutgoingContribution::IsFor(const v1::RoundSpec& spec) const {
  return end_.has_value() && WithoutDeadline(spec_) == WithoutDeadline(spec);
}

void OutgoingContribution::AddChunk(uint32_t index, Bytes payload, ExchangeClient* client) {
  AddSlice(index, OwnedSlice(std::move(payload)), client);
}

void OutgoingContribution::AddSlice(uint32_t index, grpc::Slice payload, ExchangeClient* client) {
  KeptChunk chunk;
  v1::ChunkHeader* header = chunk.frame.mutable_chunk();
  header->set_kind(v1::ROUND);
  header->set_round(spec_.round());
  header->set_index(index);
  header->set_digest(Digest64(payload.begin(), payload.size()));
  chunk.payload = std::move(payload);
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

uint32_t OutgoingContribution::FirstNotHeld(const v1::HeldChunks& held) const {
  if (held.chunks() > chunks_.size()) return 0;
  Digester digester;
  for (auto chunk = chunks_.begin(); chunk != std::next(chunks_.begin(), held.chunks()); ++chunk) {
    digester.AddUint64(chunk->second.frame.chunk().digest());
  }
  return digester.Finish() == held.digest() ? held.chunks() : 0;
}

void OutgoingContribution::SendAgain(ExchangeClient* client, const v1::HeldChunks& held) const {
  if (held.complete()) return;
  const uint32_t first = FirstNotHeld(held);
  for (auto chunk = chunks_.lower_bound(first); chunk != chunks_.end(); ++chunk) {
    client->Send(chunk->second.frame, {chunk->second.payload});
  }
  if (end_.has_value()) client->Send(*end_);
}

std::optional<KeptContribution> OutgoingContribution::Keep() const {
  if (!end_.has_value()) return std::nullopt;
  KeptContribution kept{spec_, {}, end_->end()};
  for (const auto& [index, chunk] : chunks_) kept.chunks.emplace_back(index, chunk.payload);
  return kept;
}

void OutgoingContribution::Restore(KeptContribution kept) {
  Begin(kept.spec);
  for (auto& [index, payload] : kept.chunks) AddSlice(index, std::move(payload), nullptr);
  End(std::move(kept.end), nullptr);
}

}  // namespace tally
