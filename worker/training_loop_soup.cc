// A greedy soup on the worker's side: its own model and the averages that the server sends are scored on
// the rows that it holds out of training.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/update/apply_round.h"
#include "spdlog/spdlog.h"
#include "worker/evaluation.h"
#include "worker/training_loop.h"

namespace tally {
namespace {

// Whether all chunks of the average are here, and are those that the server means.
bool IsWhole(const std::vector<Bytes>& chunks, const v1::Trial& trial) {
  if (chunks.size() != trial.chunks()) return false;
  Digester digester;
  for (const Bytes& chunk : chunks) digester.AddUint64(Digest64(chunk.data(), chunk.size()));
  return digester.Finish() == trial.digest();
}

}  // namespace

// With the parameters as they are in memory now.
absl::StatusOr<v1::HeldOutScore> TrainingLoop::ScoreHeldOut() {
  TALLY_ASSIGN_OR_RETURN(const RowSet rows, PartitionRows(data_->info().train_examples, share(),
                                                          shares(), "training split"));
  TALLY_ASSIGN_OR_RETURN(const Score score,
                         EvaluateRows(*model_, *data_, Split::kTrain,
                                      HeldOutRows(rows, job().data().hold_out_every())));
  v1::HeldOutScore proto;
  proto.set_correct(score.correct);
  proto.set_count(score.count);
  proto.set_loss_sum(score.loss_sum);
  return proto;
}

absl::Status TrainingLoop::TakeTrialChunk(const v1::ChunkHeader& header, const Payload& payload) {
  const ChunkGrid& grid = replica_->grid();
  if (!live_ || header.round() != replica_->spec().round() || header.index() >= grid.size()) {
    return absl::OkStatus();  // of a round that this stream has not seen open
  }
  if (payload.Digest() != header.digest()) {
    return absl::DataLossError(absl::StrCat("trial: chunk ", header.index(), ": digest: expected ",
                                            DigestToString(header.digest()), ", found ",
                                            DigestToString(payload.Digest())));
  }
  trial_.resize(grid.size());
  trial_[header.index()] = payload.ToBytes();
  return absl::OkStatus();
}

// The score of an average whose chunks are not all here is of no rows; the server goes on without it.
absl::Status TrainingLoop::OnTrial(const v1::Trial& trial) {
  const std::vector<Bytes> chunks = std::exchange(trial_, {});
  v1::WorkerFrame frame;
  frame.mutable_trial_score()->set_round(trial.round());
  frame.mutable_trial_score()->set_number(trial.number());
  if (live_ && replica_->spec().round() == trial.round() && IsWhole(chunks, trial)) {
    TALLY_ASSIGN_OR_RETURN(*frame.mutable_trial_score()->mutable_score(), ScoreAverage(chunks));
  }
  stream_->Send(frame);
  return absl::OkStatus();
}

// The common parameters moved by the average as the round would move them, scored, and put back.
absl::StatusOr<v1::HeldOutScore> TrainingLoop::ScoreAverage(const std::vector<Bytes>& chunks) {
  const std::vector<ByteSpan> spans(chunks.begin(), chunks.end());
  const absl::Span<float> x = flat_->parameters();
  const std::vector<float> common(x.begin(), x.end());
  TALLY_RETURN_IF_ERROR(WithContext(ApplyRound(flat_->layout(), replica_->spec(), spans, x, {}),
                                    "trial"));
  const absl::StatusOr<v1::HeldOutScore> score = ScoreHeldOut();
  std::copy(common.begin(), common.end(), x.begin());
  return score;
}

}  // namespace tally
