// Contributions to the open round: chunks, ends, and what is refused.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"
#include "server/round/round_kind.h"

namespace tally {

bool JobRun::TakesPart(const Attachment& from, uint64_t round) const {
  return from.phase == AttachmentPhase::kLive && round_ != nullptr && !closing_ &&
         round_->spec().round() == round && !round_->HasAbstained(from.index);
}

absl::Status JobRun::OnContributionChunk(Attachment& from, const v1::ChunkHeader& header,
                                         const Payload& payload, size_t wire_bytes) {
  Effects effects;
  std::shared_ptr<OpenRound> round;
  {
    absl::MutexLock lock(&mutex_);
    if (from.phase == AttachmentPhase::kEnded) return absl::OkStatus();
    CountUp(from, wire_bytes);
    if (from.phase == AttachmentPhase::kHandingBack) return OnHandedChunk(from, header, payload);
    if (TakesPart(from, header.round())) {
      round = round_;
    } else {
      RefuseLate(from, header.round(), effects);
    }
  }
  absl::Status status;
  if (round != nullptr) status = TakeChunk(from, header, payload, round, effects);
  Finish(std::move(effects));
  return status;
}

// The worker's stream ends, and it goes on from what is on the disk when it is back.
absl::Status JobRun::DiskFailed(const Attachment& from, const absl::Status& status) {
  const std::string message = absl::StrCat("contributions: ", status.message());
  observer_->OnEvent("warning", from.worker, message);
  return absl::UnavailableError(message);
}

// The payload is checked, kept and, if it is the last one awaited, reduced without the lock.
absl::Status JobRun::TakeChunk(Attachment& from, const v1::ChunkHeader& header,
                               const Payload& payload, const std::shared_ptr<OpenRound>& round,
                               Effects& effects) {
  Bytes bytes = payload.ToBytes();
  absl::Status valid = CheckChunk(*round, header, bytes);
  Booking booking;
  {
    absl::MutexLock lock(&mutex_);
    if (from.phase == AttachmentPhase::kEnded || round->HasContributed(from.index)) {
      return absl::OkStatus();
    }
    if (round != round_ || closing_) {
      RefuseLate(from, header.round(), effects);
      return absl::OkStatus();
    }
    if (valid.ok()) {
      const absl::StatusOr<Booking> booked =
          round->Book(from.index, header.index(), header.digest(), bytes.size());
      valid = booked.status();
      if (booked.ok()) booking = *booked;
    }
    if (!valid.ok()) {
      LeaveOut(from, "damaged", std::string(valid.message()), effects);
      return absl::OkStatus();
    }
  }
  if (!booking.fresh) return absl::OkStatus();
  const absl::Status staged = round->Stage(from.index, booking.attempt, header.index(),
                                           header.digest(), std::move(bytes));
  absl::MutexLock lock(&mutex_);
  if (round != round_ || from.phase == AttachmentPhase::kEnded) return absl::OkStatus();
  if (!staged.ok() && round->on_disk()) return DiskFailed(from, staged);
  if (!staged.ok()) {
    LeaveOut(from, "damaged", std::string(staged.message()), effects);
    return absl::OkStatus();
  }
  if (!round->Arrived(from.index, booking.attempt, header.index())) return absl::OkStatus();
  effects.round = round;
  effects.reduce.push_back(header.index());
  return absl::OkStatus();
}

absl::Status JobRun::CheckChunk(const OpenRound& round, const v1::ChunkHeader& header,
                                const Bytes& bytes) {
  if (header.index() >= round.grid().size()) {
    return absl::InvalidArgumentError(absl::StrCat("chunk ", header.index(),
                                                   ": expected an index below ",
                                                   round.grid().size()));
  }
  const uint64_t digest = Digest64(bytes.data(), bytes.size());
  if (digest != header.digest()) {
    return absl::DataLossError(absl::StrCat("chunk ", header.index(), ": digest: expected ",
                                            DigestToString(header.digest()), ", found ",
                                            DigestToString(digest)));
  }
  return WithContext(round.CheckContribution(header.index(), bytes),
                     absl::StrCat("chunk ", header.index()));
}

// A contribution on the disk is synced without the lock, and counts after that.
absl::Status JobRun::OnContributionEnd(Attachment& from, const v1::ContributionEnd& end,
                                       size_t wire_bytes) {
  Effects effects;
  std::shared_ptr<OpenRound> round;
  uint32_t attempt = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (from.phase == AttachmentPhase::kEnded) return absl::OkStatus();
    CountUp(from, wire_bytes);
    if (MayEnd(from, end, effects)) {
      round = round_;
      attempt = round->part(from.index).attempt;
    }
  }
  absl::Status staged;
  if (round != nullptr) {
    staged = round->StageEnd(from.index, attempt, end);
    absl::MutexLock lock(&mutex_);
    if (!staged.ok()) {
      staged = DiskFailed(from, staged);
    } else if (from.phase != AttachmentPhase::kEnded && TakesPart(from, end.round())) {
      CountContribution(from, end, effects);
    }
  }
  Finish(std::move(effects));
  return staged;
}

// Whether this is the end of a whole contribution to the open round.
bool JobRun::MayEnd(Attachment& from, const v1::ContributionEnd& end, Effects& effects) {
  if (!TakesPart(from, end.round())) {
    RefuseLate(from, end.round(), effects);
    return false;
  }
  if (round_->HasContributed(from.index)) return false;  // a repetition
  v1::JobWorker& stats = stats_[from.index];
  stats.set_nonfinite(stats.nonfinite() + end.nonfinite());
  if (!end.abstain().empty()) {
    LeaveOut(from, "abstained", end.abstain(), effects);
    return false;
  }
  if (const absl::Status whole = round_->CheckEnd(from.index, end); !whole.ok()) {
    LeaveOut(from, "damaged", std::string(whole.message()), effects);
    return false;
  }
  return true;
}

void JobRun::CountContribution(Attachment& from, const v1::ContributionEnd& end,
                               Effects& effects) {
  if (round_->HasContributed(from.index)) return;
  if (const absl::Status ended = round_->End(from.index, end); !ended.ok()) {
    return LeaveOut(from, "damaged", std::string(ended.message()), effects);
  }
  v1::JobWorker& stats = stats_[from.index];
  stats.set_last_round(end.round());
  // Each stands for a batch: where this place's data goes on. A buffers round takes none.
  if (IsTraining(round_->spec())) stats.set_contributions(stats.contributions() + 1);
  Advance(effects);
}

// A contribution to a round that is closed, told to its worker once a round.
void JobRun::RefuseLate(Attachment& from, uint64_t round, Effects& effects) {
  if (round_ != nullptr && round_->spec().round() == round && round_->HasAbstained(from.index)) {
    return;  // the rest of a contribution that was left out
  }
  if (from.refused_round >= round) return;
  from.refused_round = round;
  const std::string reason = absl::StrCat("round ", round, " is closed; the contribution is late");
  v1::JobWorker& stats = stats_[from.index];
  stats.set_refused(stats.refused() + 1);
  observer_->OnRefused("late");
  observer_->OnEvent("warning", from.worker, reason);
  Send(from, RefusedFrame(round, reason), effects);
}

// The worker's contribution to the open round will not count, as far as it is not reduced yet.
void JobRun::LeaveOut(Attachment& from, const std::string& kind, const std::string& reason,
                      Effects& effects) {
  const uint64_t number = round_->spec().round();
  from.refused_round = number;  // the rest of it is not told again
  last_left_out_ = absl::StrCat(from.worker, ": ", reason);
  round_->Abstain(from.index);
  v1::JobWorker& stats = stats_[from.index];
  stats.set_refused(stats.refused() + 1);
  observer_->OnRefused(kind);
  observer_->OnEvent("warning", from.worker,
                     absl::StrCat("round ", number, ": left out (", kind, "): ", reason));
  if (kind != "abstained") Send(from, RefusedFrame(number, reason), effects);
  effects.round = round_;
  for (const uint32_t chunk : round_->ClaimComplete()) effects.reduce.push_back(chunk);
  Advance(effects);
}

}  // namespace tally
