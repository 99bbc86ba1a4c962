// Members of a job: attaching, going live, what goes out to them, leaving.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"

namespace tally {

absl::StatusOr<uint32_t> JobRun::IndexOf(const std::string& worker) const {
  const auto found = std::find(places_.begin(), places_.end(), worker);
  if (found == places_.end() || worker.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("worker ", worker, " has no part in job ", options_.job_id));
  }
  return static_cast<uint32_t>(found - places_.begin());
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
    SendRound(member, effects);
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
    // Not into a round that closes: its spec was not sent here. Its end wakes this stream. But who has
    // contributed to it may score the averages of a soup.
    const bool may = !closing_ || (soup_.has_value() && round_->HasContributed(to->index));
    if (to->outbox.empty() && to->phase == AttachmentPhase::kCatchingUp && !to->finish && may) {
      GoLive(*to, effects);
    }
    next = TakeFrame(*to);
  }
  // The caller is `to`'s own link and already at work.
  std::erase(effects.wakes, to->link);
  Finish(std::move(effects));
  return next;
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
  LoseScorer(member.index);
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
