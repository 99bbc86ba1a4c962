// A mask round: the worker scores every trained parameter on some of its examples.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "worker/training_loop.h"

namespace tally {
namespace {

// So that batches add up to just the examples asked for.
uint32_t LargestDivisorUpTo(uint32_t n, uint32_t limit) {
  uint32_t divisor = std::max<uint32_t>(1, std::min(n, limit));
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

// The mean over examples, one float32 a trained parameter. The examples are drawn anew in each mask
// round, as a function of seed, worker and round; the training's own order of data goes on unmoved.
absl::StatusOr<std::vector<float>> TrainingLoop::FisherScores(const v1::RoundSpec& spec) {
  BatchStreamOptions options = BatchOptions();
  options.batch_size = LargestDivisorUpTo(spec.fisher_samples(), job().batch_size());
  options.seed = StreamKey(job().seed(), 0, spec.round(), RandomPurpose::kFisher);
  options.position = 0;
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<BatchStream> batches,
                         BatchStream::Start(*data_, options));
  const FisherKind kind =
      spec.fisher() == "expected" ? FisherKind::kExpected : FisherKind::kEmpirical;
  std::vector<float> scores(flat_->layout().trained_size());
  for (uint32_t done = 0; done < spec.fisher_samples(); done += options.batch_size) {
    if (WaitOrLeft(absl::ZeroDuration())) return absl::CancelledError("no longer at this job");
    if (stream_->latest_closed() >= spec.round()) return absl::OutOfRangeError("the round was closed");
    TALLY_ASSIGN_OR_RETURN(const Batch batch, batches->Next());
    const absl::Status added = model_->AccumulateFisher(batch, kind, absl::MakeSpan(scores));
    if (absl::IsFailedPrecondition(added)) return absl::OutOfRangeError(added.message());
    TALLY_RETURN_IF_ERROR(added);
    SetProgress(spec.round(), done + options.batch_size, spec.fisher_samples());
  }
  for (float& score : scores) score /= static_cast<float>(spec.fisher_samples());
  return scores;
}

absl::Status TrainingLoop::ContributeScores(const v1::RoundSpec& spec) {
  if (spec.fisher() == "random") return absl::OkStatus();  // the server's own round
  const absl::StatusOr<std::vector<float>> scores = FisherScores(spec);
  if (absl::IsOutOfRange(scores.status())) return Abstain(std::string(scores.status().message()));
  TALLY_RETURN_IF_ERROR(scores.status());
  const ChunkGrid& grid = replica_->grid();
  for (uint32_t index = 0; index < grid.size(); ++index) {
    contribution_.AddChunk(
        index, WriteDense(absl::MakeConstSpan(*scores).subspan(grid[index].first, grid[index].count)),
        stream_);
  }
  v1::ContributionEnd end;
  end.set_samples(spec.fisher_samples());
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

}  // namespace tally
