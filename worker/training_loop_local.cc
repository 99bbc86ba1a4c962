// A round of local steps: the worker trains alone from the common parameters and contributes what
// it has changed.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/spec/learning_rate.h"
#include "spdlog/spdlog.h"
#include "worker/training_loop.h"

namespace tally {
namespace {

// The deadline may be another one when a round is opened again.
bool IsSameRound(v1::RoundSpec a, v1::RoundSpec b) {
  a.clear_deadline_ms();
  b.clear_deadline_ms();
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace

// One step; the learning rate is that of the job's schedule over local steps.
absl::StatusOr<Score> TrainingLoop::LocalStep(const v1::RoundSpec& spec, uint32_t step,
                                              LocalParameters& moved) {
  TALLY_ASSIGN_OR_RETURN(const Batch batch, batches_->Next());
  torn_ = true;
  flat_->ZeroGradients();
  const absl::StatusOr<Score> score = model_->AccumulateGradients(batch);
  TALLY_RETURN_IF_ERROR(flat_->FinishBackward());
  TALLY_RETURN_IF_ERROR(score.status());
  const uint64_t of_job = (spec.step() - 1) * spec.local_steps() + step;
  const absl::Status stepped = method_->LocalStep(LocalLearningRateAt(job(), of_job),
                                                  moved.Gather(flat_->gradients()), moved.Take());
  if (absl::IsInvalidArgument(stepped)) {  // a gradient that is not finite; the loop goes on
    return absl::OutOfRangeError(absl::StrCat("local step ", step, ": ", stepped.message()));
  }
  TALLY_RETURN_IF_ERROR(stepped);
  moved.Put();
  torn_ = false;
  return *score;
}

// The steps that local_ lacks. OUT_OF_RANGE if this worker has nothing to contribute, CANCELLED if it
// is to leave. A broken stream does not end it: the contribution is sent when there is another.
absl::Status TrainingLoop::LocalSteps(const v1::RoundSpec& spec, LocalParameters& moved) {
  v1::LocalWork& work = local_->work;
  while (work.steps() < spec.local_steps()) {
    if (WaitOrLeft(absl::ZeroDuration())) return absl::CancelledError("no longer at this job");
    if (stream_->latest_closed() >= spec.round()) {
      return absl::OutOfRangeError(
          absl::StrCat("the round was closed after local step ", work.steps()));
    }
    TALLY_ASSIGN_OR_RETURN(const Score score, LocalStep(spec, work.steps() + 1, moved));
    work.set_steps(work.steps() + 1);
    work.set_samples(work.samples() + score.count);
    work.set_loss_sum(work.loss_sum() + score.loss_sum);
    SetProgress(spec.round(), work.steps(), spec.local_steps(),
                score.loss_sum / static_cast<double>(std::max<uint64_t>(score.count, 1)));
    CheckpointLocalWorkIfDue(moved);
  }
  return absl::OkStatus();
}

void TrainingLoop::CheckpointLocalWorkIfDue(LocalParameters& moved) {
  if (!saver_->Due()) return;
  moved.Swap(local_->values);
  CheckpointIfDue();
  moved.Swap(local_->values);
}

absl::Status TrainingLoop::ContributeLocal(const v1::RoundSpec& spec) {
  const Mask* mask = IsSparse(spec) ? replica_->mask().get() : nullptr;
  if (mask != nullptr) method_->SetMask(replica_->mask());
  LocalParameters moved(flat_->parameters().first(flat_->layout().trained_size()), mask);
  if (local_.has_value() && IsSameRound(local_->work.spec(), spec) &&
      local_->work.history() == replica_->history() && local_->values.size() == moved.size()) {
    Report("info", absl::StrCat("round ", spec.round(), ": goes on after local step ",
                                local_->work.steps(), " of ", spec.local_steps()));
    moved.Swap(local_->values);
  } else {
    const absl::Span<const float> common = moved.Take();
    local_.emplace();
    *local_->work.mutable_spec() = spec;
    local_->work.set_history(replica_->history());
    local_->values.assign(common.begin(), common.end());
  }
  absl::Status done = LocalSteps(spec, moved);
  absl::StatusOr<v1::HeldOutScore> score;
  if (done.ok() && spec.greedy_soup()) {
    score = ScoreHeldOut();
    done = score.status();
  }
  moved.Swap(local_->values);
  if (absl::IsOutOfRange(done)) return Abstain(std::string(done.message()));
  TALLY_RETURN_IF_ERROR(done);
  const KeptLocalWork local = *std::exchange(local_, std::nullopt);
  std::vector<float> delta = local.values;
  const absl::Span<const float> common = moved.Take();
  for (size_t i = 0; i < delta.size(); ++i) delta[i] -= common[i];
  const absl::Status encoded = EncodeDelta(spec, delta);
  if (!encoded.ok()) return Abstain(std::string(encoded.message()));
  v1::ContributionEnd end;
  end.set_samples(local.work.samples());
  end.set_loss_sum(local.work.loss_sum());
  if (spec.greedy_soup()) *end.mutable_score() = *score;
  last_samples_ = local.work.samples();
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

// `delta`: of all elements of the round's grid, or of its mask's, in their order.
absl::Status TrainingLoop::EncodeDelta(const v1::RoundSpec& spec, absl::Span<const float> delta) {
  const ChunkGrid& grid = replica_->grid();
  std::vector<Bytes> payloads(grid.size());  // a contribution is sent whole or not at all
  method_->BeginContribution();
  for (uint32_t index = 0; index < grid.size(); ++index) {
    TALLY_ASSIGN_OR_RETURN(const IndexSet* set,
                           MaskOfChunk(spec, replica_->mask().get(), grid[index]));
    const size_t size = set == nullptr ? grid[index].count : set->indices.size();
    EncodeStats stats;
    TALLY_ASSIGN_OR_RETURN(payloads[index],
                           method_->Encode(spec, grid[index], delta.first(size), &stats));
    delta.remove_prefix(size);
  }
  method_->EndContribution();
  for (uint32_t index = 0; index < grid.size(); ++index) {
    contribution_.AddChunk(index, std::move(payloads[index]), stream_);
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::Abstain(const std::string& reason) {
  torn_ = false;
  local_.reset();
  Report("warning", absl::StrCat("round ", contribution_.round(), ": abstains: ", reason));
  v1::ContributionEnd end;
  end.set_abstain(reason);
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

std::optional<v1::LocalProgress> TrainingLoop::Progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

void TrainingLoop::SetProgress(uint64_t round, uint64_t done, uint64_t total, double loss) {
  absl::MutexLock lock(&mutex_);
  progress_.emplace();
  progress_->set_round(round);
  progress_->set_done(done);
  progress_->set_total(total);
  progress_->set_loss(loss);
}

void TrainingLoop::ClearProgress() {
  absl::MutexLock lock(&mutex_);
  progress_.reset();
}

}  // namespace tally
