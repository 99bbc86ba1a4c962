#include "worker/data/batch_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace tally {

absl::StatusOr<std::unique_ptr<BatchStream>> BatchStream::Start(const DataSource& source,
                                                                const BatchStreamOptions& options) {
  if (options.batch_size == 0) {
    return absl::InvalidArgumentError("batch size: expected at least 1, found 0");
  }
  if (options.prefetch == 0) {
    return absl::InvalidArgumentError("prefetch: expected at least 1 batch, found 0");
  }
  TALLY_ASSIGN_OR_RETURN(const RowSet rows,
                         PartitionRows(source.info().train_examples, options.partition,
                                       options.partitions, "training split"));
  const uint64_t used = options.position * options.batch_size;
  const uint32_t hold_out = options.hold_out_every;
  const uint64_t trained = hold_out == 0 ? rows.count : rows.count - rows.count / hold_out;
  auto reader = std::make_unique<EpochReader>(source, rows, hold_out, options.shuffle_buffer,
                                              options.seed, options.worker, used / trained);
  auto stream = std::unique_ptr<BatchStream>(
      new BatchStream(std::move(reader), options, source, trained));
  BatchStream* self = stream.get();
  self->thread_ = std::thread([self] { self->Fill(); });
  return stream;
}

BatchStream::BatchStream(std::unique_ptr<EpochReader> reader, const BatchStreamOptions& options,
                         const DataSource& source, uint64_t rows)
    : format_(source.info().example),
      batch_size_(options.batch_size),
      rows_(rows),
      position_(options.position),
      to_skip_(options.position * options.batch_size % rows),
      reader_(std::move(reader)),
      queue_(options.prefetch) {}

BatchStream::~BatchStream() {
  Stop();
  thread_.join();
}

void BatchStream::Fill() {
  for (;;) {
    absl::StatusOr<Batch> batch = MakeBatch();
    const bool failed = !batch.ok();
    if (!queue_.Push(std::move(batch)) || failed) return;
  }
}

absl::StatusOr<Batch> BatchStream::MakeBatch() {
  Batch batch;
  batch.format = format_;
  batch.elements.resize(batch_size_ * format_.bytes());
  batch.labels.resize(batch_size_);
  for (; to_skip_ > 0; --to_skip_) {
    TALLY_RETURN_IF_ERROR(reader_->Next(batch.elements.data(), batch.labels.data()));
  }
  for (uint32_t i = 0; i < batch_size_; ++i) {
    TALLY_RETURN_IF_ERROR(
        reader_->Next(batch.elements.data() + i * format_.bytes(), &batch.labels[i]));
  }
  return batch;
}

absl::StatusOr<Batch> BatchStream::Next() {
  absl::StatusOr<Batch> batch = queue_.Pop();
  if (batch.ok()) ++position_;
  return batch;
}

void BatchStream::Stop() { queue_.Stop(); }

}  // namespace tally
