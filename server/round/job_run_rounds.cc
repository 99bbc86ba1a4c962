// Rounds: opening, closing, committing.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "common/update/history.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"
#include "server/round/round_kind.h"

namespace tally {
namespace {

// Workers that are alive are back within a few of their pauses between attempts.
constexpr absl::Duration kReturnLimit = absl::Seconds(30);
// Durations of the last rounds, for the time that is left.
constexpr size_t kRememberedRounds = 64;

absl::Duration Median(std::deque<absl::Duration> durations) {
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

}  // namespace

absl::Status JobRun::OnFrame(const std::shared_ptr<Attachment>& from, const v1::WorkerFrame& frame,
                             const Payload& payload, size_t wire_bytes) {
  if (frame.has_chunk() && frame.chunk().kind() == v1::ROUND) {
    return OnContributionChunk(*from, frame.chunk(), payload, wire_bytes);
  }
  if (frame.has_end()) return OnContributionEnd(*from, frame.end(), wire_bytes);
  Effects effects;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (from->phase == AttachmentPhase::kEnded) return absl::OkStatus();
    CountUp(*from, wire_bytes);
    status = OnControlFrame(*from, frame, payload, effects);
  }
  Finish(std::move(effects));
  return status;
}

void JobRun::CountUp(const Attachment& from, size_t wire_bytes) {
  v1::JobWorker& stats = stats_[from.index];
  stats.set_bytes_up(stats.bytes_up() + wire_bytes);
}

absl::Status JobRun::OnControlFrame(Attachment& from, const v1::WorkerFrame& frame,
                                    const Payload& payload, Effects& effects) {
  switch (frame.body_case()) {
    case v1::WorkerFrame::kParameters:
      OnDigest(from, frame.parameters(), effects);
      return absl::OkStatus();
    case v1::WorkerFrame::kEvaluation:
      OnEvaluation(from, frame.evaluation(), effects);
      return absl::OkStatus();
    case v1::WorkerFrame::kTrialScore:
      OnTrialScore(from, frame.trial_score(), effects);
      return absl::OkStatus();
    case v1::WorkerFrame::kBaseBegin:
      return OnBaseBegin(from, frame.base_begin());
    case v1::WorkerFrame::kPastRound:
      return OnHandedRound(from, frame.past_round());
    case v1::WorkerFrame::kClosed:
      return OnHandedClosed(from, frame.closed(), effects);
    case v1::WorkerFrame::kChunk:
      if (frame.chunk().kind() != v1::PARAMETERS) break;
      return OnBaseChunk(from, frame.chunk(), payload);
    case v1::WorkerFrame::kBaseEnd:
      return OnBaseEnd(from, frame.base_end(), effects);
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("worker ", from.worker, ": a frame that is not expected here"));
}

bool JobRun::MayOpen() {
  if (writer_ == nullptr || round_ != nullptr || all_rounds_done_) return false;
  if (held_.has_value()) {
    SetState(v1::PAUSED, HeldReason());
    return false;
  }
  if (AwaitsLostRounds()) {
    SetState(v1::PAUSED, "workers hand back rounds that the server's disk has lost");
    return false;
  }
  if (!last_spec_.has_value()) return MayOpenFirst();
  if (AwaitsReturning()) return false;
  const v1::WorkersSpec& workers = options_.spec.workers();
  const uint32_t live = LiveMembers();
  if (live >= workers.minimum()) return true;
  SetState(v1::PAUSED, absl::StrCat(live, " attached, minimum ", workers.minimum()));
  return false;
}

// The first round waits for everybody, and after a round's deadline for the quorum.
bool JobRun::MayOpenFirst() {
  const v1::WorkersSpec& workers = options_.spec.workers();
  const uint32_t live = LiveMembers();
  const bool waited = options_.clock->Steady() - state_since_ >=
                      absl::Milliseconds(static_cast<int64_t>(workers.round_deadline_ms()));
  if (live >= TakenPlaces() || (waited && live >= workers.quorum())) {
    return live >= workers.minimum();
  }
  SetState(v1::WAITING, absl::StrCat(live, " of ", TakenPlaces(), " workers ready"));
  return false;
}

// After a restart: whoever took part in the ledger's last round may hold rounds that the disk has
// lost. Once the next round is open that help comes too late.
bool JobRun::AwaitsReturning() {
  const absl::Duration patience = std::min(
      kReturnLimit, absl::Milliseconds(
                        static_cast<int64_t>(options_.spec.workers().round_deadline_ms())));
  if (returning_.empty()) return false;
  if (options_.clock->Steady() - opened_at_ >= patience) {
    returning_.clear();
    return false;
  }
  std::vector<absl::string_view> names;
  for (const uint32_t index : returning_) names.push_back(places_[index]);
  SetState(v1::PAUSED, absl::StrCat("after the server's restart, waiting for ",
                                    absl::StrJoin(names, ", "), " for at most ",
                                    absl::FormatDuration(patience)));
  return true;
}

// The open round has the workers that it needs.
void JobRun::Resume() {
  if (std::exchange(lacked_workers_, false)) deadline_from_ = options_.clock->Steady();
  if (state_ == v1::PAUSED) SetState(v1::RUNNING, "");
}

void JobRun::OpenNextRound(Effects& effects) {
  if (state_ == v1::SUCCEEDED || state_ == v1::FAILED || state_ == v1::CANCELLED) return;
  if (!MayOpen()) return;
  const std::optional<v1::RoundSpec> spec =
      planner_->Next(last_spec_.has_value() ? &*last_spec_ : nullptr);
  absl::StatusOr<std::shared_ptr<OpenRound>> round = NewRound(*spec);
  if (!round.ok()) return End(v1::FAILED, std::string(round.status().message()), effects);
  SetState(v1::RUNNING, "");
  DropSlowReaders();
  round_ = *std::move(round);
  deadline_from_ = round_->opened_at();
  lacked_workers_ = false;
  for (auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kLive) continue;
    round_->Await(member->index);
    SendRound(*member, effects);
  }
  if (IsServersOwn(*spec)) CloseForContributions(effects);
  if (round_->contributed() > 0) Advance(effects);  // by what lay on the disk
}

void JobRun::CloseForContributions(Effects& effects) {
  closing_ = true;
  effects.round = round_;
  for (const uint32_t chunk : round_->ClaimRest()) effects.reduce.push_back(chunk);
}

absl::StatusOr<std::shared_ptr<OpenRound>> JobRun::NewRound(const v1::RoundSpec& spec) const {
  TALLY_ASSIGN_OR_RETURN(ChunkGrid grid, GridForRound(*layout_, spec));
  TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(spec.reduction()));
  for (const Chunk& chunk : grid.chunks()) {
    TALLY_RETURN_IF_ERROR(MaskOfChunk(spec, mask_.get(), chunk).status());
  }
  std::unique_ptr<StagedContributions> staged;
  if (StagesOnDisk(spec)) {
    TALLY_ASSIGN_OR_RETURN(
        staged, StagedContributions::Open(ContributionsFolder(options_.folder), spec, grid.size()));
  }
  return std::make_shared<OpenRound>(spec, std::move(grid), reduction,
                                     options_.spec.workers().quorum(), options_.clock->Steady(),
                                     std::move(staged), mask_);
}

// The open round, and how much of its contribution the member need not send again.
void JobRun::SendRound(Attachment& member, Effects& effects) {
  Send(member, RoundFrame(round_->spec(), writer_->synced_round(), round_->Held(member.index)),
       effects);
}

// Closes the open round if it may close now.
void JobRun::Advance(Effects& effects) {
  if (round_ == nullptr || !commit_error_.empty()) return;
  if (!closing_) {
    const v1::WorkersSpec& workers = options_.spec.workers();
    const CloseDecision decision = DecideClose(
        ProgressNow(), {MostPlaces(), workers.quorum(), workers.minimum()});
    switch (decision.action) {
      case CloseAction::kWait:
        return Resume();
      case CloseAction::kOverdue:
        // Those who came back after a pause have the whole deadline.
        if (lacked_workers_) return Resume();
        return SetState(v1::PAUSED, absl::StrCat(decision.reason, AwaitedNames()));
      case CloseAction::kPause:
        lacked_workers_ = true;
        return SetState(v1::PAUSED, absl::StrCat(decision.reason, AwaitedNames()));
      case CloseAction::kFail:
        return End(v1::FAILED,
                   absl::StrCat("round ", round_->spec().round(), ": ", decision.reason,
                                "; the last one: ", last_left_out_),
                   effects);
      case CloseAction::kClose:
        break;
    }
    Resume();
    if (round_->spec().greedy_soup()) return BeginSoup(effects);
    CloseForContributions(effects);
  }
  if (round_->AllReduced()) StartCommit(effects);
}

// " (worker-1, worker-2)", whom the open round waits for; empty if nobody.
std::string JobRun::AwaitedNames() const {
  std::vector<absl::string_view> names;
  for (uint32_t index = 0; index < places_.size(); ++index) {
    if (round_->IsAwaited(index)) names.push_back(places_[index]);
  }
  return names.empty() ? "" : absl::StrCat(" (waiting for ", absl::StrJoin(names, ", "), ")");
}

RoundProgress JobRun::ProgressNow() const {
  RoundProgress progress;
  progress.contributed = round_->contributed();
  progress.abstained = round_->abstained();
  progress.awaited = round_->awaited();
  progress.attached = LiveMembers();
  progress.since_opening = options_.clock->Steady() - deadline_from_;
  progress.deadline = absl::Milliseconds(static_cast<int64_t>(round_->spec().deadline_ms()));
  return progress;
}

// The closed round is to enter the ledger. Only one thread writes it; it stays round_ until then.
void JobRun::StartCommit(Effects& effects) {
  if (round_ == nullptr || std::exchange(committing_, true)) return;
  // A snapshot must not be ahead of the ledger after a crash.
  const bool sync = options_.strict_durability || planner_->SnapshotAfter(round_->spec());
  v1::RoundClosed closed = round_->Closed();
  closed.set_history(RoundHistory(last_history_, closed));
  effects.commit = Commit{round_, std::move(closed), writer_.get(), sync};
}

// Without the run's lock: a slow disk holds up the round's end, not the streams.
absl::Status JobRun::WriteToLedger(const Commit& commit) {
  FaultPoint("round.after_reduction");
  const v1::RoundSpec& spec = commit.round->spec();
  if (commit.writer->last_round() < spec.round()) {  // otherwise it is there: its sync had failed
    std::vector<ByteSpan> payloads;
    for (const AggregateChunk& chunk : commit.round->aggregate()) {
      payloads.emplace_back(*chunk.payload);
    }
    TALLY_RETURN_IF_ERROR(commit.writer->Append(spec, commit.closed, payloads));
  }
  return commit.sync ? commit.writer->Sync() : absl::OkStatus();
}

// They are in the ledger; what cannot be removed now is with the next round's.
void JobRun::RemoveStaged(uint64_t before) {
  const absl::Status removed =
      RemoveContributionsBefore(ContributionsFolder(options_.folder), before);
  if (!removed.ok()) observer_->OnEvent("warning", "", std::string(removed.message()));
}

// The round is in the ledger: it is announced, and the next one opens.
void JobRun::EndCommit(const Commit& commit, const absl::Status& written, Effects& effects) {
  absl::MutexLock lock(&mutex_);
  committing_ = false;
  if (round_ != commit.round) return;  // the job has ended meanwhile
  if (!written.ok()) {
    // Nothing is lost: the round is kept and tried again by the timer.
    commit_error_ = std::string(written.message());
    return SetState(v1::PAUSED, commit_error_);
  }
  commit_error_.clear();
  FaultPoint("round.before_announce");
  Broadcast(ClosedFrame(commit.closed), effects);
  if (!commit.sync) sync_->Request();
  const v1::RoundSpec spec = commit.round->spec();
  RecordProgress(commit.closed, options_.clock->Steady() - round_->opened_at());
  round_.reset();
  closing_ = false;
  ExpectReports(spec);
  std::vector<ByteSpan> payloads;
  for (const AggregateChunk& chunk : commit.round->aggregate()) payloads.emplace_back(*chunk.payload);
  if (const absl::Status adopted = AdoptMask(spec, payloads); !adopted.ok()) {
    return End(v1::FAILED, std::string(adopted.message()), effects);
  }
  RoundEntered(spec, commit.closed, effects);
  VacateLeaving(effects);
  effects.announced = true;
  OpenNextRound(effects);
}

void JobRun::RoundEntered(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                          Effects& effects) {
  last_spec_ = spec;
  last_history_ = closed.history();
  if (StagesOnDisk(spec)) RemoveStaged(spec.round() + 1);
  const bool snapshot = planner_->SnapshotAfter(spec);
  if (spec.compare_digest() || snapshot) fold_->Request({spec.round(), snapshot});
  all_rounds_done_ = !planner_->Next(&spec).has_value();
  if (all_rounds_done_) SetState(v1::FINALIZING, "writing the result");
  for (auto& [name, member] : members_) {  // there is one more round to read
    if (member->phase == AttachmentPhase::kCatchingUp) effects.wakes.push_back(member->link);
  }
}

void JobRun::RecordProgress(const v1::RoundClosed& closed, absl::Duration took) {
  durations_.push_back(took);
  if (durations_.size() > kRememberedRounds) durations_.pop_front();
  uint64_t up = 0;
  for (const uint32_t voter : closed.voters()) up += round_->part(voter).bytes;
  uint64_t down = 0;
  for (const AggregateChunk& chunk : round_->aggregate()) down += chunk.payload->size();
  samples_ += IsTraining(round_->spec()) ? closed.samples() : 0;
  const double seconds = absl::ToDoubleSeconds(Median(durations_));
  const double bits = 8.0 / static_cast<double>(round_->grid().elements());
  observer_->OnProgress([&](v1::JobStatus& status) {
    *status.mutable_workers() = {stats_.begin(), stats_.end()};
    status.set_samples(samples_);
    if (!IsTraining(round_->spec())) return;
    status.set_round(round_->spec().step());
    status.set_loss(closed.loss_sum() / static_cast<double>(std::max<uint64_t>(closed.samples(), 1)));
    status.set_bits_up(static_cast<double>(up) * bits / std::max(1, closed.voters_size()));
    status.set_bits_down(static_cast<double>(down) * bits);
    status.set_round_seconds(seconds);
    status.set_seconds_left(
        seconds * static_cast<double>(options_.spec.rounds() - round_->spec().step()));
  });
  observer_->OnRoundClosed(took, up, down);
}

}  // namespace tally
