// Members of a job: attaching, catching up, going live, leaving.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
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

}  // namespace

absl::StatusOr<uint32_t> JobRun::IndexOf(const std::string& worker) const {
  const auto found = std::find(places_.begin(), places_.end(), worker);
  if (found == places_.end() || worker.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("worker ", worker, " has no part in job ", options_.job_id));
  }
  return static_cast<uint32_t>(found - places_.begin());
}

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

absl::StatusOr<std::shared_ptr<Attachment>> JobRun::Attach(const v1::Attach& attach,
                                                           std::shared_ptr<WorkerLink> link) {
  const std::optional<uint64_t> history =
      attach.has_parameters() ? HistoryAt(attach.round()) : std::nullopt;
  Effects effects;
  auto member = std::make_shared<Attachment>();
  {
    absl::MutexLock lock(&mutex_);
    TALLY_ASSIGN_OR_RETURN(const uint32_t index, IndexOf(attach.worker()));
    if (!layout_.has_value()) TALLY_RETURN_IF_ERROR(KeepLayout(attach));
    if (attach.layout_digest() != layout_->digest()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker ", attach.worker(), ": layout digest: expected ",
          DigestToString(layout_->digest()), ", found ", DigestToString(attach.layout_digest()),
          "; its model differs from the job's"));
    }
    member->worker = attach.worker();
    member->index = index;
    member->link = std::move(link);
    std::shared_ptr<Attachment>& place = members_[attach.worker()];
    if (place != nullptr) {
      EndAttachment(*place, absl::AbortedError("replaced by a newer stream of the same worker"),
                    effects);
      Forget(*place, effects);
    }
    place = member;
    stats_[index].set_attached(true);
    if (IsTerminalState()) {
      Send(*member, StopFrame(state_, reason_), effects);
      member->finish = absl::OkStatus();
    } else {
      StartMember(*member, attach, history, effects);
      ElectIfNeeded(effects);
    }
    PublishWorkers();
    effects.wakes.push_back(member->link);
  }
  Finish(std::move(effects));
  return member;
}

// The first worker's layout is the job's.
absl::Status JobRun::KeepLayout(const v1::Attach& attach) {
  TALLY_ASSIGN_OR_RETURN(const Layout layout, Layout::FromProto(attach.layout()));
  if (layout.digest() != attach.layout_digest()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", attach.worker(), ": layout digest: expected that of its layout, ",
        DigestToString(layout.digest()), ", found ", DigestToString(attach.layout_digest())));
  }
  TALLY_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(options_.folder, "/layout.pb"),
                                            layout.ToProto().SerializeAsString()));
  return AdoptLayout(layout.ToProto());
}

void JobRun::PublishWorkers() {
  observer_->OnProgress([&](v1::JobStatus& status) {
    *status.mutable_workers() = {stats_.begin(), stats_.end()};
  });
}

void JobRun::StartMember(Attachment& member, const v1::Attach& attach,
                         std::optional<uint64_t> history, Effects& effects) {
  observer_->OnEvent("info", member.worker, "attached");
  if (writer_ == nullptr) return;  // stays kAwaitingBase
  member.Push(AttachedFrame(false));
  member.round = attach.round();
  member.history = attach.history();
  member.first_held = attach.first_held();
  const bool wrong = resynchronise_[member.index];
  resynchronise_[member.index] = false;
  if (!wrong && attach.has_parameters() && CanHandBack(member)) {
    member.phase = AttachmentPhase::kAhead;
    return AskForLostRounds(effects);
  }
  const bool knows = !wrong && attach.has_parameters() && HasLedgersRounds(member, attach, history);
  StartCatchUp(member, knows ? std::make_optional(attach.round()) : std::nullopt);
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

// The base comes from one worker: the first there is, or the next one when it goes away.
void JobRun::ElectIfNeeded(Effects& effects) {
  if (writer_ != nullptr || !elected_.empty() || members_.empty()) return;
  const auto& [name, member] = *members_.begin();
  elected_ = name;
  Send(*member, AttachedFrame(true), effects);
}

void JobRun::GoLive(Attachment& member, Effects& effects) {
  member.phase = AttachmentPhase::kLive;
  if (round_ != nullptr) {
    Send(member, RoundFrame(round_->spec(), writer_->synced_round()), effects);
    for (uint32_t i = 0; i < round_->grid().size(); ++i) {
      const AggregateChunk& chunk = round_->aggregate()[i];
      if (chunk.payload == nullptr) continue;
      Send(member, AggregateFrame(round_->spec().round(), i, chunk), effects);
    }
    round_->Await(member.index);
  }
  OpenNextRound(effects);
}

void JobRun::Send(Attachment& member, grpc::ByteBuffer frame, Effects& effects) {
  member.Push(std::move(frame));
  effects.wakes.push_back(member.link);
}

void JobRun::Broadcast(const grpc::ByteBuffer& frame, Effects& effects) {
  for (auto& [name, member] : members_) {
    if (member->phase == AttachmentPhase::kLive) Send(*member, frame, effects);
  }
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

uint32_t JobRun::LiveMembers() const {
  return static_cast<uint32_t>(
      std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
        return entry.second->phase == AttachmentPhase::kLive;
      }));
}

Outgoing JobRun::Next(const std::shared_ptr<Attachment>& to) {
  Effects effects;
  Outgoing next;
  bool behind = true;
  while (behind) {
    ReadLedgerFor(to);
    absl::MutexLock lock(&mutex_);
    behind = to->outbox.empty() && IsBehind(*to);  // a round closed since
    if (behind) continue;
    // Not into a round that closes: its spec was not sent here. Its end wakes this stream.
    if (to->outbox.empty() && to->phase == AttachmentPhase::kCatchingUp && !to->finish &&
        !closing_) {
      GoLive(*to, effects);
    }
    next = TakeFrame(*to);
  }
  // The caller is `to`'s own link and already at work.
  std::erase(effects.wakes, to->link);
  Finish(std::move(effects));
  return next;
}

bool JobRun::IsBehind(const Attachment& member) const {
  return member.phase == AttachmentPhase::kCatchingUp && !member.finish &&
         (member.wants_snapshot || member.snapshot != nullptr ||
          member.next_round <= writer_->last_round());
}

Outgoing JobRun::TakeFrame(Attachment& member) {
  Outgoing next;
  if (member.outbox.empty()) {
    next.finish = member.finish;
    return next;
  }
  next.frame = std::move(member.outbox.front());
  member.outbox.pop_front();
  member.outbox_bytes -= next.frame->Length();
  v1::JobWorker& stats = stats_[member.index];
  stats.set_bytes_down(stats.bytes_down() + next.frame->Length());
  return next;
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
  member.Push(PastRoundFrame(round->spec));
  for (uint32_t i = 0; i < round->aggregates.size(); ++i) {
    member.Push(LedgerChunkFrame(*round, i, round));
  }
  member.Push(ClosedFrame(round->closed));
}

void JobRun::EndAttachment(Attachment& member, absl::Status status, Effects& effects) {
  if (member.finish.has_value()) return;
  member.finish = std::move(status);
  effects.wakes.push_back(member.link);
}

// Nothing of this member is waited for any more.
void JobRun::Forget(Attachment& member, Effects& effects) {
  const bool handing_back = member.phase == AttachmentPhase::kHandingBack;
  member.phase = AttachmentPhase::kEnded;
  stats_[member.index].set_attached(false);
  if (handing_back) {
    handed_.reset();
    AskForLostRounds(effects);
  }
  evaluations_.Forget(member.index);
  digests_.Forget(member.index);
  if (elected_ == member.worker && writer_ == nullptr) {
    elected_.clear();
    std::vector<float>().swap(base_);
  }
  if (round_ == nullptr) return;
  round_->NoLongerAwait(member.index);
  effects.round = round_;
  for (const uint32_t chunk : round_->ClaimComplete()) effects.reduce.push_back(chunk);
}

void JobRun::Drop(const std::string& worker) {
  std::shared_ptr<Attachment> member;
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = members_.find(worker);
    if (found == members_.end()) return;
    member = found->second;
    EndAttachment(*member, absl::UnavailableError("no heartbeat; the lease has ended"), effects);
  }
  Detach(member);
  Finish(std::move(effects));
}

void JobRun::Detach(const std::shared_ptr<Attachment>& gone) {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = members_.find(gone->worker);
    if (found == members_.end() || found->second != gone) return;
    members_.erase(found);
    const bool told = gone->finish.has_value() && !gone->finish->ok();
    observer_->OnEvent("info", gone->worker,
                       absl::StrCat("detached: ", told ? gone->finish->message()
                                                       : gone->finish ? "it was told to stop"
                                                                      : "its stream has ended"));
    Forget(*gone, effects);
    PublishWorkers();
    if (IsTerminalState()) return;
    VacateLeaving(effects);
    ElectIfNeeded(effects);
    Advance(effects);
    OpenNextRound(effects);
    PublishEvaluations();
    FinishIfDone(effects);
  }
  Finish(std::move(effects));
}

}  // namespace tally
