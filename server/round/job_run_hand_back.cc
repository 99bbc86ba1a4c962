// Rounds that the ledger has lost with the machine (relaxed durability) and a worker still holds: it
// sends them over the frames that a round travels in, and they enter the ledger as they were.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "common/update/history.h"
#include "common/update/mask.h"
#include "server/ledger/record.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {
namespace {

absl::Status NotAsked(const std::string& worker) {
  return absl::FailedPreconditionError(
      absl::StrCat("worker ", worker, " hands back a round that it was not asked for"));
}

}  // namespace

// Once a round is open the lost ones are being done again.
bool JobRun::CanHandBack(const Attachment& member) const {
  const uint64_t last = writer_->last_round();
  return member.round > last && round_ == nullptr && !all_rounds_done_ &&
         member.first_held != 0 && member.first_held <= last + 1;
}

bool JobRun::AwaitsLostRounds() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
    return entry.second->phase == AttachmentPhase::kAhead ||
           entry.second->phase == AttachmentPhase::kHandingBack;
  });
}

void JobRun::AskForLostRounds(Effects& effects) {
  const uint64_t last = writer_->last_round();
  for (auto& [name, member] : members_) {
    if (member->phase == AttachmentPhase::kHandingBack) return;
  }
  for (auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kAhead) continue;
    if (!CanHandBack(*member)) {
      // Another one has handed back what this one has, or something else.
      const bool same = member->round == last && member->history == last_history_;
      StartCatchUp(*member, same ? std::make_optional(member->round) : std::nullopt);
      effects.wakes.push_back(member->link);
      continue;
    }
    member->phase = AttachmentPhase::kHandingBack;
    handed_.emplace();
    handed_->since = options_.clock->Steady();
    observer_->OnEvent("warning", name,
                       absl::StrCat("hands back rounds ", last + 1, " to ", member->round,
                                    ", which the server's disk has lost"));
    return Send(*member, HandBackFrame(last + 1, member->round), effects);
  }
}

absl::Status JobRun::OnHandedRound(Attachment& from, const v1::RoundSpec& spec) {
  if (from.phase != AttachmentPhase::kHandingBack) return NotAsked(from.worker);
  const std::optional<v1::RoundSpec> expected =
      planner_->Next(last_spec_.has_value() ? &*last_spec_ : nullptr);
  if (!expected.has_value() || expected->SerializeAsString() != spec.SerializeAsString()) {
    return absl::AbortedError(absl::StrCat("round ", spec.round(),
                                           ", which is handed back, is not the job's next one"));
  }
  TALLY_ASSIGN_OR_RETURN(handed_->grid, GridForRound(*layout_, spec));
  handed_->spec = spec;
  handed_->chunks.assign(handed_->grid.size(), {});
  handed_->digests.assign(handed_->grid.size(), 0);
  handed_->since = options_.clock->Steady();
  return absl::OkStatus();
}

absl::Status JobRun::OnHandedChunk(Attachment& from, const v1::ChunkHeader& header,
                                   const Payload& payload) {
  if (header.round() != handed_->spec.round() || header.index() >= handed_->chunks.size()) {
    return NotAsked(from.worker);
  }
  Bytes bytes = payload.ToBytes();
  const std::string where =
      absl::StrCat("round ", header.round(), ", handed back: chunk ", header.index());
  const uint64_t digest = Digest64(bytes.data(), bytes.size());
  if (digest != header.digest()) {
    return absl::AbortedError(absl::StrCat(where, ": digest: expected ",
                                           DigestToString(header.digest()), ", found ",
                                           DigestToString(digest)));
  }
  const absl::Status fits =
      CheckAggregateChunk(handed_->spec, mask_.get(), handed_->grid[header.index()], bytes);
  if (!fits.ok()) {
    return absl::AbortedError(absl::StrCat(where, ": ", fits.message()));
  }
  handed_->digests[header.index()] = digest;
  handed_->chunks[header.index()] = std::move(bytes);
  return absl::OkStatus();
}

absl::Status JobRun::CheckHandedClosed(const v1::RoundClosed& closed) const {
  const bool whole =
      closed.round() == handed_->spec.round() && closed.chunks() == handed_->chunks.size() &&
      std::none_of(handed_->chunks.begin(), handed_->chunks.end(),
                   [](const Bytes& chunk) { return chunk.empty(); }) &&
      closed.digest() == DigestOfChunks(handed_->digests);
  if (!whole) {
    return absl::AbortedError(absl::StrCat("round ", closed.round(), ", handed back, is not whole"));
  }
  const uint64_t history = RoundHistory(last_history_, closed);
  if (closed.history() == history) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("round ", closed.round(),
                                         ", handed back, does not follow the ledger's: history: "
                                         "expected ", DigestToString(history), ", found ",
                                         DigestToString(closed.history())));
}

// Nobody is in a round now, so the disk may be waited for with the lock held. ABORTED tells the
// worker that its rounds are of no use: it comes back for a snapshot.
absl::Status JobRun::OnHandedClosed(Attachment& from, const v1::RoundClosed& closed,
                                    Effects& effects) {
  if (from.phase != AttachmentPhase::kHandingBack) return NotAsked(from.worker);
  TALLY_RETURN_IF_ERROR(CheckHandedClosed(closed));
  const std::vector<ByteSpan> payloads(handed_->chunks.begin(), handed_->chunks.end());
  const MaskPointer before = mask_;
  if (const absl::Status mask = AdoptMask(handed_->spec, payloads); !mask.ok()) {
    return absl::AbortedError(mask.message());
  }
  if (const absl::Status written = writer_->Append(handed_->spec, closed, payloads); !written.ok()) {
    mask_ = before;
    return written;
  }
  FaultPoint("handback.mid");
  const v1::RoundSpec spec = handed_->spec;
  handed_->since = options_.clock->Steady();
  sync_->Request();
  for (auto& [name, member] : members_) {  // who had all rounds lacks this one
    if (member->phase != AttachmentPhase::kLive) continue;
    member->phase = AttachmentPhase::kCatchingUp;
    member->next_round = spec.round();
  }
  RoundEntered(spec, closed, effects);
  observer_->OnProgress([&](v1::JobStatus& status) { status.set_round(spec.step()); });
  if (spec.round() == from.round || all_rounds_done_) EndHandBack(from, effects);
  return absl::OkStatus();
}

void JobRun::EndHandBack(Attachment& from, Effects& effects) {
  handed_.reset();
  StartCatchUp(from, writer_->last_round());
  effects.wakes.push_back(from.link);
  AskForLostRounds(effects);
  OpenNextRound(effects);
}

// A worker that hangs in the middle of it is given up, as in a round.
void JobRun::EnforceHandBackLimit(Effects& effects) {
  if (!handed_.has_value()) return;
  const absl::Duration limit = absl::Milliseconds(
      static_cast<int64_t>(options_.spec.workers().round_deadline_ms()));
  if (options_.clock->Steady() - handed_->since < limit) return;
  for (auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kHandingBack) continue;
    const std::shared_ptr<Attachment> gone = member;
    EndAttachment(*gone, absl::AbortedError("it has not handed back a round in its deadline"),
                  effects);
    members_.erase(name);
    Forget(*gone, effects);
    PublishWorkers();
    return OpenNextRound(effects);
  }
}

}  // namespace tally
