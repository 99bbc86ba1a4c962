// After a round: evaluations, the comparison of digests, and the job's end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "server/round/frames.h"
#include "server/round/job_run.h"
#include "server/round/round_kind.h"

namespace tally {

void JobRun::HearProgress(const std::string& worker, const v1::LocalProgress& progress) {
  absl::MutexLock lock(&progress_mutex_);
  progress_[worker] = progress;
}

void JobRun::PublishOpenRound() {
  v1::JobStatus now;
  if (round_ != nullptr) {
    now.set_phase(std::string(PhaseOf(round_->spec())));
    now.set_round_chunks(round_->grid().size());
    now.set_round_contributions(round_->contributed());
  }
  std::map<std::string, v1::LocalProgress> heard;
  {
    absl::MutexLock lock(&progress_mutex_);
    heard.swap(progress_);
  }
  for (uint32_t i = 0; i < stats_.size(); ++i) {
    const auto found = heard.find(stats_[i].name());
    if (found != heard.end()) *stats_[i].mutable_progress() = found->second;
    const bool open = round_ != nullptr;
    stats_[i].set_chunks_received(open ? round_->part(i).chunks : 0);
    stats_[i].set_contributed(open && round_->HasContributed(i));
    if (stats_[i].has_progress() && (!open || stats_[i].progress().round() != round_->spec().round())) {
      stats_[i].clear_progress();
    }
  }
  *now.mutable_workers() = {stats_.begin(), stats_.end()};
  if (std::string text = now.SerializeAsString(); text != published_round_) {
    published_round_ = std::move(text);
    observer_->OnProgress([&](v1::JobStatus& status) {
      status.set_phase(now.phase());
      status.set_round_chunks(now.round_chunks());
      status.set_round_contributions(now.round_contributions());
      *status.mutable_workers() = now.workers();
    });
  }
}
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

}  // namespace

void JobRun::ExpectReports(const v1::RoundSpec& spec) {
  for (const auto& [name, member] : members_) {
    if (member->phase != AttachmentPhase::kLive) continue;
    if (spec.evaluate()) evaluations_.Expect(spec.round(), member->index);
    if (spec.compare_digest()) digests_.Expect(spec.round(), member->index);
  }
  if (spec.evaluate()) evaluation_steps_[spec.round()] = spec.step();
}

void JobRun::OnEvaluation(const Attachment& from, const v1::Evaluation& evaluation,
                          Effects& effects) {
  evaluations_.Report(evaluation.round(), from.index, evaluation);
  PublishEvaluations();
  FinishIfDone(effects);
}

// Sums and counts of the shares, so that the mean is that of the whole test split.
void JobRun::PublishEvaluations() {
  auto& rows = evaluations_.rows();
  while (!rows.empty() && rows.begin()->second.complete()) {
    const auto& [round, row] = *rows.begin();
    v1::Evaluation sum;
    sum.set_round(evaluation_steps_[round]);
    for (const auto& [worker, part] : row.reports) {
      sum.set_correct(sum.correct() + part.correct());
      sum.set_count(sum.count() + part.count());
      sum.set_loss_sum(sum.loss_sum() + part.loss_sum());
    }
    evaluation_steps_.erase(evaluation_steps_.begin(), evaluation_steps_.upper_bound(round));
    rows.erase(rows.begin());
    if (sum.count() == 0) continue;
    const auto count = static_cast<double>(sum.count());
    observer_->OnProgress([&](v1::JobStatus& status) { *status.mutable_evaluation() = sum; });
    observer_->OnEvent(
        "info", "",
        absl::StrFormat("after round %d: accuracy %.2f%% and loss %.4f on %d examples", sum.round(),
                        100.0 * static_cast<double>(sum.correct()) / count, sum.loss_sum() / count,
                        sum.count()));
  }
}

void JobRun::OnDigest(const Attachment& from, const v1::ParametersDigest& digest,
                      Effects& effects) {
  if (digests_.Report(digest.round(), from.index, digest)) {
    digest_log_->Append(digest.round(), from.worker, digest.digest(), digest.blocks());
  }
  CompareDigests(effects);
  FinishIfDone(effects);
}

// By the fold's thread, which writes the snapshots. What cannot be removed now is tried after the
// next one.
void JobRun::ForgetOldRounds() {
  LedgerWriter* writer = nullptr;
  std::optional<SnapshotStore> snapshots;
  {
    absl::MutexLock lock(&mutex_);
    writer = writer_.get();
    snapshots = snapshots_;
  }
  if (const absl::Status applied = ApplyKeep(options_.keep, *writer, *snapshots); !applied.ok()) {
    observer_->OnEvent("warning", "", absl::StrCat("old rounds stay: ", applied.message()));
  }
  observer_->OnProgress(
      [&](v1::JobStatus& status) { status.set_first_kept_round(writer->first_round()); });
}

void JobRun::OnFolded(const FoldResult& result) {
  if (result.snapshot && result.written.ok()) ForgetOldRounds();
  Effects effects;
  {
    absl::MutexLock lock(&mutex_);
    if (IsTerminalState()) return;
    if (absl::IsUnavailable(result.status)) {  // no room for the fold, so none for the snapshot
      OnSnapshot(result);
    } else if (!result.status.ok()) {
      End(v1::FAILED, absl::StrCat("folding round ", result.round, ": ", result.status.message()),
          effects);
    } else {
      v1::ParametersDigest& truth = true_digests_[result.round];
      truth.set_round(result.round);
      truth.set_digest(result.digest);
      *truth.mutable_blocks() = {result.blocks.begin(), result.blocks.end()};
      observer_->OnProgress([&](v1::JobStatus& status) {
        status.set_parameters_digest(DigestToString(result.digest));
        status.set_parameters_digest_round(result.round);
      });
      if (result.snapshot) OnSnapshot(result);
      CompareDigests(effects);
      FinishIfDone(effects);
    }
  }
  Finish(std::move(effects));
}

// A snapshot that could not be written costs time at the next start, no more; the last one is the
// result, and the timer tries it again.
void JobRun::OnSnapshot(const FoldResult& result) {
  result_ = result;
  result_at_ = options_.clock->Steady();
  if (result.written.ok()) {
    newest_snapshot_ = result.round;
    return;
  }
  observer_->OnEvent("error", "", absl::StrCat("snapshot of round ", result.round, ": ",
                                               result.written.message()));
  if (state_ == v1::FINALIZING) SetState(v1::FINALIZING, std::string(result.written.message()));
}

void JobRun::WriteResultAgain() {
  if (state_ != v1::FINALIZING || !result_.has_value() || result_->written.ok()) return;
  if (result_->round != last_spec_->round()) return;
  if (options_.clock->Steady() - result_at_ < kRetryInterval) return;
  result_.reset();
  fold_->Request({last_spec_->round(), /*snapshot=*/true});
}

// The ledger is the model: a worker that differs from its fold is told so and gets a snapshot.
void JobRun::CompareDigests(Effects& effects) {
  auto& rows = digests_.rows();
  for (auto row = rows.begin(); row != rows.end();) {
    const auto truth = true_digests_.find(row->first);
    if (truth == true_digests_.end()) {
      ++row;
      continue;
    }
    for (const auto& [worker, digest] : std::exchange(row->second.reports, {})) {
      if (digest.digest() == truth->second.digest()) continue;
      Resynchronise(worker, digest, truth->second, effects);
    }
    row = row->second.complete() ? rows.erase(row) : std::next(row);
  }
  while (!true_digests_.empty() && (rows.empty() || true_digests_.begin()->first < rows.begin()->first)) {
    true_digests_.erase(true_digests_.begin());
  }
}

// " in blocks head, layer.3", as far as the worker has said.
std::string JobRun::DifferingBlocks(const v1::ParametersDigest& found,
                                    const v1::ParametersDigest& expected) const {
  std::vector<absl::string_view> names;
  for (int i = 0; i < std::min(found.blocks_size(), expected.blocks_size()); ++i) {
    if (found.blocks(i) != expected.blocks(i)) {
      names.push_back(layout_->blocks()[static_cast<size_t>(i)].name);
    }
  }
  if (names.empty()) return "";
  return absl::StrCat(names.size() == 1 ? " in block " : " in blocks ", absl::StrJoin(names, ", "));
}

void JobRun::Resynchronise(uint32_t worker, const v1::ParametersDigest& found,
                           const v1::ParametersDigest& expected, Effects& effects) {
  ++mismatches_;
  const std::string name = places_[worker];
  const std::string message = absl::StrCat(
      "round ", found.round(), ": parameters differ from the ledger's",
      DifferingBlocks(found, expected), ": expected digest ", DigestToString(expected.digest()),
      ", found ", DigestToString(found.digest()), "; the worker is resynchronised");
  observer_->OnEvent("error", name, message);
  observer_->OnProgress([&](v1::JobStatus& status) { status.set_mismatches(mismatches_); });
  resynchronise_[worker] = true;
  const auto member = members_.find(name);
  if (member == members_.end()) return;
  const std::shared_ptr<Attachment> gone = member->second;
  EndAttachment(*gone, absl::AbortedError(message), effects);
  members_.erase(member);  // at once: what it sends until its stream ends does not count
  Forget(*gone, effects);
  PublishWorkers();
}

// The result is written, and everybody has reported or gone, or had a round's time to.
void JobRun::FinishIfDone(Effects& effects) {
  if (state_ != v1::FINALIZING || !result_.has_value()) return;
  if (result_->round != last_spec_->round() || !result_->written.ok()) return;
  const absl::Duration patience = absl::Milliseconds(
      static_cast<int64_t>(options_.spec.workers().round_deadline_ms()));
  const bool reported = evaluations_.AllComplete() && digests_.AllComplete();
  if (!reported && options_.clock->Steady() - state_since_ < patience) return;
  evaluations_.ForgetAll();
  PublishEvaluations();
  observer_->OnProgress([&](v1::JobStatus& status) {
    *status.mutable_workers() = {stats_.begin(), stats_.end()};
    status.set_seconds_left(0);
  });
  End(v1::SUCCEEDED, absl::StrCat("all ", options_.spec.rounds(), " rounds are done"), effects);
}

}  // namespace tally
