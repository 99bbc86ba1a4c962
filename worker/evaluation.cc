#include "worker/evaluation.h"

#include <memory>
#include <optional>

#include "common/base/status.h"
#include "worker/data/evaluation_reader.h"

namespace tally {
namespace {

constexpr uint32_t kBatch = 250;

absl::StatusOr<Score> Evaluate(Model& model, EvaluationReader& reader) {
  Score total;
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(const std::optional<Batch> batch, reader.Next());
    if (!batch.has_value()) return total;
    TALLY_ASSIGN_OR_RETURN(const Score score, model.Evaluate(*batch));
    total += score;
  }
}

}  // namespace

absl::StatusOr<Score> EvaluateShare(Model& model, const DataSource& data, uint32_t index,
                                    uint32_t shares) {
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationReader> reader,
                         EvaluationReader::Open(data, index, shares, kBatch));
  return Evaluate(model, *reader);
}

absl::StatusOr<Score> EvaluateRows(Model& model, const DataSource& data, Split split, RowSet rows) {
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationReader> reader,
                         EvaluationReader::OpenRows(data, split, rows, kBatch));
  return Evaluate(model, *reader);
}

}  // namespace tally
