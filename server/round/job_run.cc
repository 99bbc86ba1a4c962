#include "server/round/job_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "server/round/frames.h"

namespace tally {
namespace {

constexpr absl::Duration kSyncInterval = absl::Seconds(1);

}  // namespace

JobRun::JobRun(JobRunOptions options, std::shared_ptr<JobObserver> observer)
    : options_(std::move(options)), observer_(std::move(observer)) {
  absl::MutexLock lock(&mutex_);
  state_since_ = options_.clock->Steady();
  stats_.resize(options_.workers.size());
  resynchronise_.resize(options_.workers.size());
  for (size_t i = 0; i < stats_.size(); ++i) {
    stats_[i].set_name(options_.workers[i]);
    stats_[i].set_index(static_cast<uint32_t>(i));
  }
}

JobRun::~JobRun() {
  std::unique_ptr<FoldThread> fold;
  {
    absl::MutexLock lock(&mutex_);
    fold = std::move(fold_);
  }
  // Joined without the lock: its last result may be on its way to OnFolded.
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
    if (worker.name() != stats.name()) continue;
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
                                                     layout_->digest()));
  if (writer_->cut_bytes() > 0) {
    observer_->OnEvent("warning", "", absl::StrCat("ledger: cut off ", writer_->cut_bytes(),
                                                   " bytes: ", writer_->cut_reason()));
  }
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> snapshot, LatestSnapshot());
  fold_ = std::make_unique<FoldThread>(Fold::FromSnapshot(*layout_, *snapshot), writer_->reader(), *snapshots_,
                                       [this](const FoldResult& result) { OnFolded(result); });
  if (writer_->last_round() == 0) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(const LedgerRound last, writer_->reader().Read(writer_->last_round()));
  return ResumeAfter(last.spec);
}

absl::Status JobRun::ResumeAfter(const v1::RoundSpec& last) {
  last_spec_ = last;
  all_rounds_done_ = !planner_->Next(&last).has_value();
  observer_->OnProgress([&](v1::JobStatus& status) { status.set_round(last.step()); });
  if (all_rounds_done_) {
    SetState(v1::FINALIZING, "writing the result");
    fold_->Request({last.round(), /*snapshot=*/true});
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
  if (unsynced_ && writer_ != nullptr) {
    if (const absl::Status synced = writer_->Sync(); !synced.ok()) {
      observer_->OnEvent("error", "", std::string(synced.message()));
    }
    unsynced_ = false;
  }
  round_.reset();
  SetState(state, reason);
  for (auto& [name, member] : members_) {
    if (member->finish.has_value()) continue;
    Send(*member, StopFrame(state, reason), effects);
    member->finish = absl::OkStatus();
  }
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

void JobRun::OnTimer() {
  SyncLedgerIfDue();
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    if (IsTerminalState()) return;
    if (!commit_error_.empty()) StartCommit(effects);
    Advance(effects);
    OpenNextRound(effects);
    WriteResultAgain();
    FinishIfDone(effects);
    EnforcePauseLimit(effects);
  }
  Finish(std::move(effects));
}

// The relaxed durability's grouped sync. The disk is waited for without the lock.
void JobRun::SyncLedgerIfDue() {
  LedgerWriter* writer;
  {
    absl::MutexLock lock(&mutex_);
    if (!unsynced_ || options_.clock->Steady() - synced_at_ < kSyncInterval) return;
    synced_at_ = options_.clock->Steady();
    unsynced_ = false;
    writer = writer_.get();
  }
  if (const absl::Status synced = writer->Sync(); !synced.ok()) {
    Fail(absl::StrCat("ledger: ", synced.message()));
  }
}

void JobRun::EnforcePauseLimit(Effects& effects) {
  const uint64_t limit_ms = options_.spec.workers().pause_limit_ms();
  const bool stuck = state_ == v1::PAUSED || state_ == v1::WAITING ||
                     (state_ == v1::FINALIZING && result_.has_value() && !result_->written.ok());
  if (limit_ms == 0 || !stuck) return;
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
    // Aggregates travel while the ledger is written.
    for (const auto& link : std::exchange(effects.wakes, {})) link->Wake();
    if (!effects.commit.has_value()) return;
    const Commit commit = *std::exchange(effects.commit, std::nullopt);
    EndCommit(commit, WriteToLedger(commit), effects);
  }
}

void JobRun::ReduceClaimed(Effects& effects) {
  const std::vector<uint32_t> chunks = std::exchange(effects.reduce, {});
  const std::shared_ptr<OpenRound> round = effects.round;
  for (const uint32_t index : chunks) {
    absl::StatusOr<AggregateChunk> chunk = round->Reduce(index);
    absl::MutexLock lock(&mutex_);
    if (round != round_) return;
    if (!chunk.ok()) {
      return End(v1::FAILED, absl::StrCat("round ", round->spec().round(), ": chunk ", index, ": ",
                                          chunk.status().message()),
                 effects);
    }
    Broadcast(AggregateFrame(round->spec().round(), index, *chunk), effects);
    round->SetAggregate(index, *std::move(chunk));
    Advance(effects);
  }
}

}  // namespace tally
