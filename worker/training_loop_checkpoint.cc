// What the training loop keeps on this worker's disk, and how it goes on from there.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "spdlog/spdlog.h"
#include "worker/training_loop.h"

namespace tally {

CheckpointKey TrainingLoop::Key() const {
  return {options_.assignment.job_key(), flat_->layout().digest(), options_.assignment.index()};
}

absl::Status TrainingLoop::OpenCheckpoint() {
  TALLY_ASSIGN_OR_RETURN(checkpoints_, CheckpointFolder::Of(options_.state_folder,
                                                            options_.assignment.job_id()));
  checkpoints_->RemoveOthers();
  saver_ = std::make_unique<CheckpointSaver>(
      *checkpoints_, options_.checkpoint_every,
      [this](const std::string& level, const std::string& message) { Report(level, message); });
  // Without one, batches whose contributions counted are not used again.
  const uint64_t batches_a_round = std::max<uint64_t>(1, job().method().local().steps());
  first_position_ = options_.assignment.contributions() * batches_a_round;
  std::optional<JobCheckpoint> checkpoint = checkpoints_->Load(Key());
  if (!checkpoint.has_value()) return absl::OkStatus();
  const uint64_t round = checkpoint->round;
  const absl::Status adopted = Adopt(*std::move(checkpoint));
  if (!adopted.ok()) {
    spdlog::warn("job {}: {} is not used: {}", options_.assignment.job_id(), checkpoints_->file(),
                 std::string(adopted.message()));
    return absl::OkStatus();
  }
  Report("info", absl::StrCat("resumes from its checkpoint of round ", round, ": ",
                              method_->State().empty() ? "" : "momentum, ", "data position ",
                              first_position_));
  return absl::OkStatus();
}

// All or nothing: what does not fit the model is found before anything is changed.
absl::Status TrainingLoop::Adopt(JobCheckpoint checkpoint) {
  if (checkpoint.parameters.size() != flat_->parameters().size()) {
    return absl::InvalidArgumentError(absl::StrCat("parameters: expected ",
                                                   flat_->parameters().size(), " values, found ",
                                                   checkpoint.parameters.size()));
  }
  MaskPointer mask;
  if (!checkpoint.mask.empty()) {
    TALLY_ASSIGN_OR_RETURN(mask, Mask::Parse(flat_->layout(), checkpoint.mask));
  }
  if (mask != nullptr) method_->SetMask(mask);
  TALLY_RETURN_IF_ERROR(replica_->Adopt(checkpoint.round, checkpoint.history,
                                        std::move(checkpoint.update_state), std::move(mask)));
  if (const absl::Status restored = method_->Restore(checkpoint.method_state); !restored.ok()) {
    replica_->Invalidate();
    return restored;
  }
  std::copy(checkpoint.parameters.begin(), checkpoint.parameters.end(),
            flat_->parameters().begin());
  if (checkpoint.contribution.has_value()) {
    contribution_.Restore(*std::move(checkpoint.contribution));
  }
  local_ = std::move(checkpoint.local);
  last_samples_ = checkpoint.last_samples;
  first_position_ = std::max(first_position_, checkpoint.position);
  resumed_ = true;
  return absl::OkStatus();
}

// Between two frames, so that no step is half done. Payloads are shared, the arrays are copied.
JobCheckpoint TrainingLoop::CopyState() const {
  JobCheckpoint copy;
  copy.key = Key();
  copy.round = *replica_->round();
  copy.history = replica_->history();
  copy.position = batches_->position();
  copy.last_samples = last_samples_;
  const absl::Span<const float> parameters = std::as_const(*flat_).parameters();
  copy.parameters.assign(parameters.begin(), parameters.end());
  copy.update_state = replica_->state();
  if (replica_->mask() != nullptr) copy.mask = replica_->mask()->Serialize();
  copy.method_state = method_->CopyState();
  copy.local = local_;
  if (contribution_.round() > copy.round) copy.contribution = contribution_.Keep();
  return copy;
}

// A replica that cannot apply what it was sent has nothing worth keeping. The method's arrays must be in
// the order of the mask that is kept beside them, also if that came after the last local step.
bool TrainingLoop::MayCheckpoint() {
  if (!replica_->round().has_value() || torn_ || !replica_->Settle().ok()) return false;
  if (replica_->mask() != nullptr) method_->SetMask(replica_->mask());
  return true;
}

void TrainingLoop::CheckpointIfDue() {
  if (!saver_->Due() || !MayCheckpoint()) return;
  const absl::Duration start = Clock::System().Steady();
  JobCheckpoint copy = CopyState();
  spdlog::debug("checkpoint of round {}: copying it took {}", copy.round,
                absl::FormatDuration(Clock::System().Steady() - start));
  saver_->Save(std::move(copy));
}

void TrainingLoop::KeepOrRemoveCheckpoint() {
  saver_->Wait();
  const bool released = [this] {
    absl::MutexLock lock(&mutex_);
    return leaving_ == Leaving::kReleased;
  }();
  if (stopped_ || released) return checkpoints_->Remove();
  if (MayCheckpoint()) saver_->SaveNow(CopyState());
}

// A job's own start needs no word.
void TrainingLoop::SayHowItStarts(const v1::RoundSpec& first) {
  if (std::exchange(said_, true) || resumed_) return;
  if (first.round() == 1 && options_.assignment.contributions() == 0) return;
  Report(options_.assignment.contributions() > 0 ? "warning" : "info",
         absl::StrCat("starts without a checkpoint at round ", first.round(), ": ",
                      method_->State().empty() ? "" : "momentum zero, ", "data position ",
                      first_position_));
}

}  // namespace tally
