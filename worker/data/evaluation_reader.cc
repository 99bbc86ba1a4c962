#include "worker/data/evaluation_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {

absl::StatusOr<std::unique_ptr<EvaluationReader>> EvaluationReader::Open(const DataSource& source,
                                                                         uint32_t index,
                                                                         uint32_t shares,
                                                                         uint32_t batch_size) {
  if (index >= shares) {
    return absl::InvalidArgumentError(
        absl::StrCat("test split: expected a share below ", shares, ", found ", index));
  }
  return OpenRows(source, Split::kTest, ShareOfRows(source.info().test_examples, index, shares),
                  batch_size);
}

absl::StatusOr<std::unique_ptr<EvaluationReader>> EvaluationReader::OpenRows(
    const DataSource& source, Split split, RowSet rows, uint32_t batch_size) {
  if (batch_size == 0) {
    return absl::InvalidArgumentError("batch size: expected at least 1, found 0");
  }
  std::unique_ptr<ExampleReader> reader;
  if (rows.count > 0) {
    TALLY_ASSIGN_OR_RETURN(reader, source.Read(split, rows));
  }
  return std::unique_ptr<EvaluationReader>(new EvaluationReader(
      source.info().example, std::move(reader), rows.count, batch_size));
}

absl::StatusOr<std::optional<Batch>> EvaluationReader::Next() {
  if (left_ == 0) return std::nullopt;
  Batch batch;
  batch.format = format_;
  const uint64_t size = std::min<uint64_t>(left_, batch_size_);
  batch.elements.resize(size * format_.bytes());
  batch.labels.resize(size);
  for (uint64_t i = 0; i < size; ++i, --left_) {
    TALLY_ASSIGN_OR_RETURN(
        const bool more,
        reader_->Next(batch.elements.data() + i * format_.bytes(), &batch.labels[i]));
    if (!more) {
      return absl::DataLossError(absl::StrCat("evaluation: ", left_, " rows are missing"));
    }
  }
  return std::optional<Batch>(std::move(batch));
}

}  // namespace tally
