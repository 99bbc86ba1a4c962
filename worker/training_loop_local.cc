// A round of local steps: the worker trains alone from the common parameters and contributes what
// it has changed.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/spec/learning_rate.h"
#include "spdlog/spdlog.h"
#include "worker/training_loop.h"

namespace tally {

// One step; the learning rate is that of the job's schedule over local steps.
absl::StatusOr<Score> TrainingLoop::LocalStep(const v1::RoundSpec& spec, uint32_t step) {
  TALLY_ASSIGN_OR_RETURN(const Batch batch, batches_->Next());
  flat_->ZeroGradients();
  const absl::StatusOr<Score> score = model_->AccumulateGradients(batch);
  TALLY_RETURN_IF_ERROR(flat_->FinishBackward());
  TALLY_RETURN_IF_ERROR(score.status());
  const uint64_t of_job = (spec.step() - 1) * spec.local_steps() + step;
  const absl::Status moved =
      method_->LocalStep(LocalLearningRateAt(job(), of_job), flat_->gradients(),
                         flat_->parameters().first(flat_->layout().trained_size()));
  if (absl::IsInvalidArgument(moved)) {  // a gradient that is not finite; the loop goes on
    return absl::OutOfRangeError(absl::StrCat("local step ", step, ": ", moved.message()));
  }
  TALLY_RETURN_IF_ERROR(moved);
  return *score;
}

// The sums over all steps. OUT_OF_RANGE if this worker has nothing to contribute, CANCELLED if it is
// to leave. A broken stream does not end it: the contribution is sent when there is another.
absl::StatusOr<Score> TrainingLoop::LocalSteps(const v1::RoundSpec& spec) {
  Score total;
  for (uint32_t step = 1; step <= spec.local_steps(); ++step) {
    if (WaitOrLeft(absl::ZeroDuration())) return absl::CancelledError("no longer at this job");
    if (stream_->latest_closed() >= spec.round()) {
      return absl::OutOfRangeError(absl::StrCat("the round was closed at local step ", step));
    }
    TALLY_ASSIGN_OR_RETURN(const Score score, LocalStep(spec, step));
    total += score;
  }
  return total;
}

absl::Status TrainingLoop::ContributeLocal(const v1::RoundSpec& spec) {
  const absl::Span<float> x = flat_->parameters().first(flat_->layout().trained_size());
  std::vector<float> delta(x.begin(), x.end());  // the common parameters, until the steps are done
  torn_ = true;
  const absl::StatusOr<Score> score = LocalSteps(spec);
  for (size_t i = 0; i < x.size(); ++i) {
    const float common = delta[i];
    delta[i] = x[i] - common;
    x[i] = common;
  }
  if (absl::IsOutOfRange(score.status())) return Abstain(std::string(score.status().message()));
  TALLY_RETURN_IF_ERROR(score.status());
  torn_ = false;
  const absl::Status encoded = EncodeDelta(spec, delta);
  if (!encoded.ok()) return Abstain(std::string(encoded.message()));
  v1::ContributionEnd end;
  end.set_samples(score->count);
  end.set_loss_sum(score->loss_sum);
  last_samples_ = score->count;
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

absl::Status TrainingLoop::EncodeDelta(const v1::RoundSpec& spec, absl::Span<const float> delta) {
  const ChunkGrid& grid = replica_->grid();
  std::vector<Bytes> payloads(grid.size());  // a contribution is sent whole or not at all
  for (uint32_t index = 0; index < grid.size(); ++index) {
    const Chunk& chunk = grid[index];
    EncodeStats stats;
    TALLY_ASSIGN_OR_RETURN(
        payloads[index],
        method_->Encode(spec, chunk, delta.subspan(chunk.first, chunk.count), &stats));
  }
  for (uint32_t index = 0; index < grid.size(); ++index) {
    contribution_.AddChunk(index, std::move(payloads[index]), stream_);
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::Abstain(const std::string& reason) {
  torn_ = false;
  Report("warning", absl::StrCat("round ", contribution_.round(), ": abstains: ", reason));
  v1::ContributionEnd end;
  end.set_abstain(reason);
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

}  // namespace tally
