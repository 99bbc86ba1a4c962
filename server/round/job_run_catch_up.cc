// What a member is sent that lacks rounds: a snapshot, the ledger's rounds or both, at its own pace.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/update/update_rule.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {
namespace {

// Frames that may wait for one stream. A reader slower than this reads the ledger at its own pace
// instead, so that it costs the server no more, and the others go on.
constexpr size_t kOutboxLimit = size_t{64} << 20;
// While catching up, more is read from the disk only below this.
constexpr size_t kCatchUpLimit = size_t{4} << 20;
// A round with no more bytes than a large chunk goes as one message: small ones cost by the message.
constexpr size_t kWholeRoundLimit = size_t{1} << 20;

}  // namespace

std::optional<uint64_t> JobRun::HistoryAt(uint64_t round) const {
  if (round == 0) return 0;
  {
    absl::MutexLock lock(&mutex_);
    if (writer_ == nullptr || round > writer_->last_round()) return std::nullopt;
    if (round == writer_->last_round()) return last_history_;
  }
  const absl::StatusOr<LedgerRound> read = LedgerOf().Read(round);
  if (!read.ok()) return std::nullopt;
  return read->closed.history();
}

bool JobRun::HasLedgersRounds(const Attachment& member, const v1::Attach& attach,
                              std::optional<uint64_t> history) {
  if (history == attach.history()) return true;
  const bool ahead = attach.round() > writer_->last_round();
  observer_->OnEvent(
      "warning", member.worker,
      absl::StrCat("is at round ", attach.round(),
                   ahead ? absl::StrCat(", the ledger at ", writer_->last_round())
                         : " of rounds that are not the ledger's, which has lost them or no longer "
                           "keeps them",
                   ": gets a snapshot"));
  return false;
}

void JobRun::StartCatchUp(Attachment& member, std::optional<uint64_t> round) {
  returning_.erase(member.index);
  member.phase = AttachmentPhase::kCatchingUp;
  member.wants_snapshot = !round.has_value() || SnapshotIsLess(*round);
  member.next_round = round.value_or(0) + 1;
}

// A worker that missed so much that the rounds weigh more than the newest snapshot and what follows.
bool JobRun::SnapshotIsLess(uint64_t round) const {
  const absl::StatusOr<const UpdateRule*> rule = FindUpdateRule(planner_->update_rule());
  if (!rule.ok() || newest_snapshot_ <= round) return false;
  const auto arrays = static_cast<uint64_t>(1 + (*rule)->state_slots());
  return writer_->reader().BytesOf(round + 1, newest_snapshot_) >
         arrays * layout_->size() * sizeof(float);
}

// Reads the whole snapshot to check it, so without the lock.
absl::StatusOr<std::unique_ptr<SnapshotFrames>> JobRun::OpenSnapshotFrames() const {
  std::optional<Layout> layout;
  std::optional<SnapshotStore> snapshots;
  uint64_t last = 0;
  {
    absl::MutexLock lock(&mutex_);
    layout = layout_;
    snapshots = snapshots_;
    last = writer_->last_round();
  }
  TALLY_ASSIGN_OR_RETURN(std::unique_ptr<Snapshot> snapshot, snapshots->Latest(last));
  const std::optional<uint64_t> history = HistoryAt(snapshot->round());
  if (!history.has_value()) {
    return absl::DataLossError(absl::StrCat("the ledger does not have round ", snapshot->round(),
                                            ", which the newest snapshot is of"));
  }
  return std::make_unique<SnapshotFrames>(*layout, std::move(snapshot), *history);
}

void JobRun::OpenSnapshotFor(const std::shared_ptr<Attachment>& member) {
  {
    absl::MutexLock lock(&mutex_);
    if (!member->wants_snapshot || member->finish) return;
  }
  absl::StatusOr<std::unique_ptr<SnapshotFrames>> frames = OpenSnapshotFrames();
  absl::MutexLock lock(&mutex_);
  member->wants_snapshot = false;
  if (!frames.ok()) {
    observer_->OnEvent("error", member->worker, std::string(frames.status().message()));
    member->finish = frames.status();
    return;
  }
  member->next_round = (*frames)->round() + 1;
  member->snapshot = *std::move(frames);
}

// Called between rounds. What such a member was sent so far is whole rounds.
void JobRun::DropSlowReaders() {
  for (auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kLive || member->outbox_bytes < kOutboxLimit) continue;
    member->phase = AttachmentPhase::kCatchingUp;
    member->next_round = writer_->last_round() + 1;
    observer_->OnEvent("warning", name, "reads too slowly; it catches up from the ledger");
  }
}

bool JobRun::IsBehind(const Attachment& member) const {
  return member.phase == AttachmentPhase::kCatchingUp && !member.finish &&
         (member.wants_snapshot || member.snapshot != nullptr ||
          member.next_round <= writer_->last_round());
}

// Fills the outbox of a member that catches up: from its snapshot, then round by round. When this
// returns with an empty outbox it has all closed rounds.
void JobRun::ReadLedgerFor(const std::shared_ptr<Attachment>& member) {
  for (;;) {
    OpenSnapshotFor(member);
    uint64_t number;
    {
      absl::MutexLock lock(&mutex_);
      if (member->phase != AttachmentPhase::kCatchingUp || member->finish) return;
      while (member->snapshot != nullptr && member->outbox_bytes < kCatchUpLimit) {
        member->Push(member->snapshot->Next());
        if (member->snapshot->done()) member->snapshot.reset();
      }
      if (member->outbox_bytes >= kCatchUpLimit) return;
      if (member->next_round > writer_->last_round()) return;
      number = member->next_round;
    }
    absl::StatusOr<LedgerRound> read = LedgerOf().Read(number);
    absl::MutexLock lock(&mutex_);
    if (member->phase != AttachmentPhase::kCatchingUp || member->finish) return;
    if (absl::IsNotFound(read.status())) {  // it went by the ledger's policy meanwhile
      member->wants_snapshot = true;
      continue;
    }
    if (!read.ok()) {
      member->finish = read.status();
      return;
    }
    PushLedgerRound(*member, std::make_shared<const LedgerRound>(*std::move(read)));
    member->next_round = number + 1;
  }
}

LedgerReader JobRun::LedgerOf() const {
  absl::MutexLock lock(&mutex_);
  return writer_->reader();
}

void JobRun::PushLedgerRound(Attachment& member, std::shared_ptr<const LedgerRound> round) {
  if (round->chunks.size() <= kWholeRoundLimit) {
    member.Push(WholePastRoundFrame(*round, round));
  } else {
    member.Push(PastRoundFrame(round->spec));
    for (uint32_t i = 0; i < round->aggregates.size(); ++i) {
      member.Push(LedgerChunkFrame(*round, i, round));
    }
  }
  member.Push(ClosedFrame(round->closed));
}

}  // namespace tally
