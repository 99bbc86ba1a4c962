#include "server/round/job_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fault_point.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "server/round/frames.h"
#include "server/round/round_kind.h"

namespace tally {

JobRun::JobRun(JobRunOptions options, std::shared_ptr<JobObserver> observer)
    : options_(std::move(options)), observer_(std::move(observer)) {
  absl::MutexLock lock(&mutex_);
  state_since_ = opened_at_ = options_.clock->Steady();
  if (options_.held) held_ = options_.held_reason;
  places_ = published_places_ = options_.workers;
  stats_.resize(places_.size());
  resynchronise_.resize(places_.size());
  for (size_t i = 0; i < stats_.size(); ++i) {
    stats_[i].set_name(places_[i]);
    stats_[i].set_index(static_cast<uint32_t>(i));
  }
}

JobRun::~JobRun() {
  std::unique_ptr<FoldThread> fold;
  std::unique_ptr<SyncThread> sync;
  {
    absl::MutexLock lock(&mutex_);
    fold = std::move(fold_);
    sync = std::move(sync_);
  }
  // Joined without the lock: their last result may be on its way to it.
}

absl::StatusOr<std::shared_ptr<JobRun>> JobRun::Open(JobRunOptions options,
                                                     std::shared_ptr<JobObserver> observer) {
  std::shared_ptr<JobRun> run(new JobRun(std::move(options), std::move(observer)));
  TALLY_RETURN_IF_ERROR(run->OpenFolder());
  return run;
}

// layout.pb is there from the first Attach on, snapshot 0 and the ledger from the base's arrival.
absl::Status JobRun::OpenFolder() {
  TALLY_RETURN_IF_ERROR(MakeFolders(options_.folder));
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<std::string> bytes = ReadFile(absl::StrCat(options_.folder, "/layout.pb"));
  if (absl::IsNotFound(bytes.status())) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(bytes.status());
  v1::LayoutProto proto;
  if (!proto.ParseFromString(*bytes)) {
    return absl::DataLossError(absl::StrCat(options_.folder, "/layout.pb: not a layout"));
  }
  TALLY_RETURN_IF_ERROR(AdoptLayout(proto));
  TALLY_ASSIGN_OR_RETURN(const std::vector<uint64_t> snapshots, snapshots_->List());
  return snapshots.empty() ? absl::OkStatus() : OpenLedger();
}

absl::Status JobRun::AdoptLayout(const v1::LayoutProto& proto) {
  TALLY_ASSIGN_OR_RETURN(Layout layout, Layout::FromProto(proto));
  TALLY_ASSIGN_OR_RETURN(RoundPlanner planner, RoundPlanner::Create(options_.spec, layout));
  TALLY_ASSIGN_OR_RETURN(
      snapshots_, SnapshotStore::Open(absl::StrCat(options_.folder, "/snapshots"), layout));
  layout_ = std::move(layout);
  planner_ = std::move(planner);
  observer_->OnProgress([&](v1::JobStatus& status) {
    status.set_parameters(layout_->trained_size());
    TakeUpCounts(status);
    *status.mutable_workers() = {stats_.begin(), stats_.end()};
  });
  return absl::OkStatus();
}

// What was counted before a restart goes on.
void JobRun::TakeUpCounts(const v1::JobStatus& before) {
  samples_ = before.samples();
  mismatches_ = before.mismatches();
  for (const v1::JobWorker& worker : before.workers()) {
    if (worker.index() >= stats_.size()) continue;
    v1::JobWorker& stats = stats_[worker.index()];
    if (worker.name() != stats.name() && !stats.name().empty()) continue;
    const bool attached = stats.attached();
    stats = worker;
    stats.set_attached(attached);
  }
}

// Snapshots ahead of a ledger that has lost its tail are of rounds that will be others now.
absl::StatusOr<std::unique_ptr<Snapshot>> JobRun::LatestSnapshot() {
  TALLY_ASSIGN_OR_RETURN(const std::vector<uint64_t> rounds, snapshots_->List());
  for (const uint64_t round : rounds) {
    if (round <= writer_->last_round()) continue;
    observer_->OnEvent("warning", "", absl::StrCat("snapshot of round ", round, " removed: the "
                                                   "ledger ends at ", writer_->last_round()));
    TALLY_RETURN_IF_ERROR(snapshots_->Remove(round));
  }
  return snapshots_->Latest();
}

absl::Status JobRun::OpenLedger() {
  TALLY_ASSIGN_OR_RETURN(writer_, LedgerWriter::Open(absl::StrCat(options_.folder, "/ledger"),
                                                     layout_->digest(), {options_.keep.segment_bytes}));
  if (writer_->cut_bytes() > 0) {
    observer_->OnEvent("warning", "", absl::StrCat("ledger: cut off ", writer_->cut_bytes(),
                                                   " bytes: ", writer_->cut_reason()));
  }
  digest_log_ = DigestLog::Open(options_.folder, *layout_, writer_->last_round());
  sync_ = std::make_unique<SyncThread>(writer_.get(), [this](const absl::Status& failed) {
    Fail(absl::StrCat("ledger: ", failed.message()));
  });
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> snapshot, LatestSnapshot());
  newest_snapshot_ = snapshot->round();
  fold_ = std::make_unique<FoldThread>(Fold::FromSnapshot(*layout_, *snapshot), writer_->reader(), *snapshots_,
                                       [this](const FoldResult& result) { OnFolded(result); });
  if (writer_->last_round() == 0) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(const LedgerRound last, writer_->reader().Read(writer_->last_round()));
  last_spec_ = last.spec;
  TALLY_RETURN_IF_ERROR(TakeUpMask(*snapshot));
  return ResumeAfter(last);
}

// The mask in force after the ledger's last round: the snapshot's, or of a round behind it.
absl::Status JobRun::TakeUpMask(const Snapshot& snapshot) {
  mask_ = snapshot.mask();
  const uint64_t round = IsMaskRound(*last_spec_) ? last_spec_->round() : last_spec_->mask_round();
  if (round == 0 || (mask_ != nullptr && mask_->round() == round)) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(const LedgerRound of_mask, writer_->reader().Read(round));
  return AdoptMask(of_mask.spec, of_mask.aggregates);
}

absl::Status JobRun::AdoptMask(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregate) {
  if (!IsMaskRound(spec)) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(mask_, Mask::Create(*layout_, spec, aggregate));
  observer_->OnProgress([&](v1::JobStatus& status) { status.set_mask_size(mask_->size()); });
  return absl::OkStatus();
}

absl::Status JobRun::ResumeAfter(const LedgerRound& last) {
  last_history_ = last.closed.history();
  all_rounds_done_ = !planner_->Next(&last.spec).has_value();
  observer_->OnProgress([&](v1::JobStatus& status) { status.set_round(last.spec.step()); });
  // A random mask has no voters, and a soup not all who took part.
  if (last.closed.voters().empty() || last.spec.greedy_soup()) {
    for (uint32_t index = 0; index < places_.size(); ++index) {
      if (!places_[index].empty()) returning_.insert(index);
    }
  }
  for (const uint32_t voter : last.closed.voters()) {
    if (voter < places_.size() && !places_[voter].empty()) returning_.insert(voter);
  }
  if (all_rounds_done_) {
    SetState(v1::FINALIZING, "writing the result");
    fold_->Request({last.spec.round(), /*snapshot=*/true});
  }
  return absl::OkStatus();
}

void JobRun::SetState(v1::JobState state, const std::string& reason) {
  if (state_ == state && reason_ == reason) return;
  if (state_ != state) state_since_ = options_.clock->Steady();
  state_ = state;
  reason_ = reason;
  observer_->OnState(state, reason);
}

void JobRun::End(v1::JobState state, const std::string& reason, Effects& effects) {
  if (IsTerminalState()) return;
  round_.reset();
  soup_.reset();
  SetState(state, reason);
  for (auto& [name, member] : members_) {
    if (member->finish.has_value()) continue;
    Send(*member, StopFrame(state, reason), effects);
    member->finish = absl::OkStatus();
  }
  PublishOpenRound();
  ended_ = true;
}

void JobRun::Cancel(const std::string& reason) {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    End(v1::CANCELLED, reason, effects);
  }
  Finish(std::move(effects));
}

void JobRun::Fail(const std::string& reason) {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    End(v1::FAILED, reason, effects);
  }
  Finish(std::move(effects));
}

// The state shows at once that no further round opens, unless one is open that ends first.
void JobRun::Hold(const std::string& reason) {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    if (IsTerminalState() || all_rounds_done_) return;
    held_ = reason;
    if (round_ == nullptr) SetState(v1::PAUSED, HeldReason());
  }
  Finish(std::move(effects));
}

void JobRun::Unhold() {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    if (IsTerminalState() || !held_.has_value()) return;
    held_.reset();
    state_since_ = options_.clock->Steady();  // for the pause limit
    if (writer_ == nullptr) SetState(v1::WAITING, "waiting for the base model");
    OpenNextRound(effects);
  }
  Finish(std::move(effects));
}

std::string JobRun::HeldReason() const {
  return absl::StrCat("paused by a person", held_->empty() ? "" : absl::StrCat(": ", *held_));
}

void JobRun::OnTimer() {
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    if (IsTerminalState()) return;
    if (!commit_error_.empty()) StartCommit(effects);
    Advance(effects);
    EnforceSoup(effects);
    OpenNextRound(effects);
    WriteResultAgain();
    FinishIfDone(effects);
    EnforceHandBackLimit(effects);
    EnforcePauseLimit(effects);
    PublishOpenRound();
  }
  Finish(std::move(effects));
}

void JobRun::EnforcePauseLimit(Effects& effects) {
  const uint64_t limit_ms = options_.spec.workers().pause_limit_ms();
  const bool stuck = state_ == v1::PAUSED || state_ == v1::WAITING ||
                     (state_ == v1::FINALIZING && result_.has_value() && !result_->written.ok());
  if (limit_ms == 0 || !stuck || held_.has_value()) return;
  const absl::Duration limit = absl::Milliseconds(static_cast<int64_t>(limit_ms));
  if (options_.clock->Steady() - state_since_ < limit) return;
  End(v1::FAILED,
      absl::StrCat("pause limit of ", absl::FormatDuration(limit), " reached: ", reason_), effects);
}

// Does what was decided under the lock, which may close the round, open the next one and so on.
void JobRun::Finish(Effects effects) {
  for (;;) {
    if (!effects.reduce.empty()) {
      ReduceClaimed(effects);
      continue;
    }
    if (!effects.trial.empty()) {
      SendTrial(std::exchange(effects.trial, {}), effects);
      continue;
    }
    // Aggregates travel while the ledger is written.
    for (const auto& link : std::exchange(effects.wakes, {})) link->Wake();
    if (std::exchange(effects.broadcast, false)) FaultPoint("round.mid_broadcast");
    if (std::exchange(effects.announced, false)) FaultPoint("round.after_announce");
    if (!effects.commit.has_value()) return;
    const Commit commit = *std::exchange(effects.commit, std::nullopt);
    EndCommit(commit, WriteToLedger(commit), effects);
  }
}

void JobRun::ReduceClaimed(Effects& effects) {
  const std::vector<uint32_t> chunks = std::exchange(effects.reduce, {});
  const std::shared_ptr<OpenRound> round = effects.round;
  if (IsMaskRound(round->spec())) return ReduceMask(round, effects);
  for (const uint32_t index : chunks) {
    absl::StatusOr<AggregateChunk> chunk = round->Reduce(index);
    absl::MutexLock lock(&mutex_);
    if (round != round_) return;
    if (!chunk.ok()) {
      return End(v1::FAILED, absl::StrCat("round ", round->spec().round(), ": chunk ", index, ": ",
                                          chunk.status().message()),
                 effects);
    }
    TakeAggregate(index, *std::move(chunk), effects);
    Advance(effects);
  }
}

// A chunk of the open round is reduced; everybody gets it.
void JobRun::TakeAggregate(uint32_t index, AggregateChunk chunk, Effects& effects) {
  Broadcast(AggregateFrame(round_->spec().round(), index, chunk), effects);
  effects.broadcast = true;
  round_->SetAggregate(index, std::move(chunk));
}

// Which elements are in the mask is known of all chunks at once.
void JobRun::ReduceMask(const std::shared_ptr<OpenRound>& round, Effects& effects) {
  absl::StatusOr<std::vector<AggregateChunk>> chunks = round->ReduceToMask();
  absl::MutexLock lock(&mutex_);
  if (round != round_) return;
  if (!chunks.ok()) {
    return End(v1::FAILED, absl::StrCat("round ", round->spec().round(), ": ",
                                        chunks.status().message()),
               effects);
  }
  for (uint32_t i = 0; i < chunks->size(); ++i) TakeAggregate(i, std::move((*chunks)[i]), effects);
  Advance(effects);
}

}  // namespace tally
