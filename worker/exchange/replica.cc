#include "worker/exchange/replica.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/update/apply_round.h"
#include "common/update/history.h"
#include "common/update/update_rule.h"

namespace tally {
namespace {

// Past rounds that are applied in one pass over the parameters: as many as the server's fold takes.
constexpr size_t kRoundsAPass = 16;
constexpr uint64_t kBytesAPass = uint64_t{64} << 20;
// Of a chunk in a past round's payload: its bytes and its digest.
constexpr size_t kEntryBytes = 16;

uint64_t ReadUint64(const unsigned char* bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

}  // namespace

void Replica::AdoptBase() {
  ForgetWaiting();
  state_.clear();
  mask_ = nullptr;
  round_ = 0;
  history_ = 0;
  held_.Clear();
}

absl::Status Replica::Adopt(uint64_t round, uint64_t history,
                            std::vector<std::vector<float>> state, MaskPointer mask) {
  for (const std::vector<float>& slot : state) {
    if (slot.size() == layout_.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("update state: expected ", layout_.size(),
                                                   " values, found ", slot.size()));
  }
  ForgetWaiting();
  state_ = std::move(state);
  mask_ = std::move(mask);
  round_ = round;
  history_ = history;
  held_.Clear();
  return absl::OkStatus();
}

void Replica::Invalidate() {
  ForgetWaiting();
  round_.reset();
  held_.Clear();
}

v1::ParametersDigest Replica::DigestsOfParameters() const {
  const std::vector<uint64_t> chunks = DenseChunkDigests(layout_, parameters_);
  v1::ParametersDigest digests;
  digests.set_round(round_.value_or(0));
  digests.set_digest(ParametersDigestOf(chunks));
  for (const uint64_t block : BlockDigestsOf(layout_, chunks)) digests.add_blocks(block);
  return digests;
}

absl::Status Replica::BeginSnapshot(const v1::SnapshotBegin& begin) {
  Invalidate();
  loading_ = begin;
  loaded_chunks_ = mask_pieces_ = 0;
  mask_bytes_.clear();
  state_.assign(begin.state_slots(), std::vector<float>(layout_.size()));
  return absl::OkStatus();
}

absl::Status Replica::TakeChunk(const v1::ChunkHeader& header, const Payload& payload) {
  if (payload.Digest() != header.digest()) {
    return absl::DataLossError(absl::StrCat("chunk ", header.index(), " of round ", header.round(),
                                            ": digest: expected ", DigestToString(header.digest()),
                                            ", found ", DigestToString(payload.Digest())));
  }
  if (header.kind() == v1::ROUND) return TakeAggregate(header, payload);
  return header.kind() == v1::MASK ? TakeMask(header, payload) : TakeDense(header, payload);
}

// Its pieces come in order.
absl::Status Replica::TakeMask(const v1::ChunkHeader& header, const Payload& payload) {
  if (!loading_.has_value() || header.index() != mask_pieces_ ||
      payload.size() > loading_->mask_bytes() - mask_bytes_.size()) {
    return absl::InternalError("a piece of a snapshot's mask that is not expected");
  }
  const Bytes bytes = payload.ToBytes();
  mask_bytes_.append(bytes.begin(), bytes.end());
  ++mask_pieces_;
  return absl::OkStatus();
}

absl::Status Replica::TakeDense(const v1::ChunkHeader& header, const Payload& payload) {
  const bool state = header.kind() == v1::STATE;
  if (!loading_.has_value() || header.index() >= dense_.size() ||
      (state && header.slot() >= state_.size())) {
    return absl::InternalError("a snapshot's chunk that is not expected");
  }
  const Chunk& chunk = dense_[header.index()];
  if (payload.size() != chunk.count * sizeof(float)) {
    return absl::DataLossError(absl::StrCat("snapshot: chunk ", header.index(), ": expected ",
                                            chunk.count, " values, found ", payload.size(),
                                            " bytes"));
  }
  float* target = state ? state_[header.slot()].data() : parameters_.data();
  payload.CopyTo(absl::MakeSpan(reinterpret_cast<unsigned char*>(target + chunk.first),
                                payload.size()));
  ++loaded_chunks_;
  return absl::OkStatus();
}

absl::Status Replica::EndSnapshot(const v1::SnapshotEnd& end) {
  const uint32_t expected = dense_.size() * static_cast<uint32_t>(1 + state_.size());
  if (!loading_.has_value() || loaded_chunks_ != expected ||
      end.chunks() != expected + mask_pieces_ || mask_bytes_.size() != loading_->mask_bytes()) {
    return absl::DataLossError(absl::StrCat("snapshot: expected ", expected, " chunks, found ",
                                            loaded_chunks_));
  }
  if (digest() != end.parameters_digest()) {
    return absl::DataLossError(absl::StrCat("snapshot of round ", end.round(),
                                            ": parameters digest: expected ",
                                            DigestToString(end.parameters_digest()), ", found ",
                                            DigestToString(digest())));
  }
  mask_ = nullptr;
  if (!mask_bytes_.empty()) {
    TALLY_ASSIGN_OR_RETURN(mask_, Mask::Parse(layout_, std::exchange(mask_bytes_, {})));
  }
  round_ = loading_->round();
  history_ = loading_->history();
  loading_.reset();
  return absl::OkStatus();
}

absl::Status Replica::BeginRound(const v1::RoundSpec& spec) {
  TALLY_RETURN_IF_ERROR(Settle());
  past_ = false;
  return Begin(spec);
}

absl::Status Replica::BeginPastRound(const v1::RoundSpec& spec, const Payload& chunks) {
  if (!waiting_.empty() && !SameGrid(waiting_.back().spec, spec)) TALLY_RETURN_IF_ERROR(Settle());
  past_ = true;
  TALLY_RETURN_IF_ERROR(Begin(spec));
  return chunks.size() == 0 ? absl::OkStatus() : TakeChunks(chunks.ToBytes());
}

// Size and digest of each chunk, then the payloads one behind the other.
absl::Status Replica::TakeChunks(const Bytes& chunks) {
  const std::string where = absl::StrCat("round ", spec_.round(), ": ");
  size_t offset = aggregate_.size() * kEntryBytes;
  if (offset > chunks.size()) return absl::DataLossError(where + "its chunks' entries are cut short");
  for (size_t i = 0; i < aggregate_.size(); ++i) {
    const uint64_t size = ReadUint64(&chunks[i * kEntryBytes]);
    const uint64_t digest = ReadUint64(&chunks[i * kEntryBytes + 8]);
    if (size > chunks.size() - offset) {
      return absl::DataLossError(absl::StrCat(where, "chunk ", i, ": ", size, " bytes announced, ",
                                              chunks.size() - offset, " left"));
    }
    const auto first = chunks.begin() + static_cast<std::ptrdiff_t>(offset);
    aggregate_[i].assign(first, first + static_cast<std::ptrdiff_t>(size));
    const uint64_t found = Digest64(aggregate_[i].data(), size);
    if (found != digest) {
      return absl::DataLossError(absl::StrCat(where, "chunk ", i, ": digest: expected ",
                                              DigestToString(digest), ", found ",
                                              DigestToString(found)));
    }
    digests_[i] = digest;
    offset += size;
  }
  if (offset == chunks.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(where, chunks.size() - offset, " bytes belong to no chunk"));
}

absl::Status Replica::Begin(const v1::RoundSpec& spec) {
  if (!round_.has_value() || spec.round() != *round_ + 1) {
    return absl::InternalError(absl::StrCat("round ", spec.round(), " begins, but the worker is at ",
                                            round_.has_value() ? absl::StrCat("round ", *round_)
                                                               : "no round"));
  }
  TALLY_ASSIGN_OR_RETURN(grid_, GridForRound(layout_, spec));
  spec_ = spec;
  aggregate_.assign(grid_.size(), {});
  digests_.assign(grid_.size(), std::nullopt);
  return absl::OkStatus();
}

absl::Status Replica::TakeAggregate(const v1::ChunkHeader& header, const Payload& payload) {
  if (header.round() != spec_.round() || header.index() >= aggregate_.size()) {
    return absl::InternalError(absl::StrCat("chunk ", header.index(), " of round ", header.round(),
                                            " comes in round ", spec_.round()));
  }
  aggregate_[header.index()] = payload.ToBytes();
  digests_[header.index()] = header.digest();
  return absl::OkStatus();
}

absl::Status Replica::CheckClosed(const v1::RoundClosed& closed) const {
  Digester digester;
  for (uint32_t i = 0; i < digests_.size(); ++i) {
    if (!digests_[i].has_value()) {
      return absl::DataLossError(absl::StrCat("round ", closed.round(), ": chunk ", i, " is missing"));
    }
    digester.AddUint64(*digests_[i]);
  }
  if (closed.round() != spec_.round() || closed.digest() != digester.Finish()) {
    return absl::DataLossError(absl::StrCat("round ", closed.round(),
                                            ": the aggregate's digest is not the server's"));
  }
  const uint64_t history = RoundHistory(history_, closed);
  if (closed.history() != history) {
    return absl::DataLossError(absl::StrCat("round ", closed.round(), ": history: expected ",
                                            DigestToString(history), ", found ",
                                            DigestToString(closed.history())));
  }
  return absl::OkStatus();
}

absl::Status Replica::ApplyWaiting() {
  std::vector<std::vector<ByteSpan>> payloads;
  std::vector<LedgerStep> steps;
  for (const ClosedRound& round : waiting_) {
    TALLY_ASSIGN_OR_RETURN(const UpdateRule* rule, FindUpdateRule(round.spec.update_rule()));
    while (state_.size() < static_cast<size_t>(rule->state_slots())) {
      state_.emplace_back(layout_.size());
    }
    payloads.emplace_back(round.chunks.begin(), round.chunks.end());
  }
  for (size_t i = 0; i < waiting_.size(); ++i) steps.push_back({&waiting_[i].spec, payloads[i]});
  const std::vector<absl::Span<float>> state(state_.begin(), state_.end());
  return ApplyRounds(layout_, steps, parameters_, state, &mask_);
}

absl::Status Replica::Settle() {
  if (waiting_.empty()) return absl::OkStatus();
  const absl::Status applied = ApplyWaiting();
  if (!applied.ok()) {
    round_ = waiting_.front().spec.round() - 1;
    history_ = waiting_.front().history_before;
  } else {
    for (ClosedRound& round : waiting_) held_.Add(round.spec, round.closed, std::move(round.chunks));
  }
  ForgetWaiting();
  return applied;
}

void Replica::ForgetWaiting() {
  waiting_.clear();
  waiting_bytes_ = 0;
}

bool Replica::MoreMayWait() const {
  return past_ && waiting_.size() < kRoundsAPass && waiting_bytes_ < kBytesAPass;
}

absl::Status Replica::CloseRound(const v1::RoundClosed& closed) {
  TALLY_RETURN_IF_ERROR(CheckClosed(closed));
  for (const Bytes& chunk : aggregate_) waiting_bytes_ += chunk.size();
  waiting_.push_back({spec_, closed, std::exchange(aggregate_, {}), history_});
  digests_.clear();
  round_ = spec_.round();
  history_ = closed.history();
  return MoreMayWait() ? absl::OkStatus() : Settle();
}

}  // namespace tally
