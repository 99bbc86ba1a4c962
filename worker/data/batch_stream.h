// Training batches without end: a reader, a shuffle buffer and a queue, filled by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/data/bounded_queue.h"
#include "worker/data/data_source.h"
#include "worker/data/epoch_reader.h"

namespace tally {

struct BatchStreamOptions {
  // This worker's part of the training split; 0 of 1 for all of it.
  uint32_t partition = 0;
  uint32_t partitions = 1;
  uint32_t batch_size = 0;
  // Each so-manieth row of the part is held out (HeldOutRows); 0: none.
  uint32_t hold_out_every = 0;
  // Examples held to draw from; 0 keeps the stored order. Memory: so many examples.
  uint32_t shuffle_buffer = 0;
  // The order is a function of seed, worker and epoch.
  uint64_t seed = 0;
  uint32_t worker = 0;  // index in the job
  // Batches made ahead of the consumer.
  uint32_t prefetch = 4;
  // Batches already used: the stream goes on behind them.
  uint64_t position = 0;
};

// Every batch has batch_size examples: one that an epoch's end cuts short is filled from the next.
// Within an epoch each row of the partition that is not held out comes exactly once.
class BatchStream {
 public:
  // INVALID_ARGUMENT for a batch size or prefetch of 0, or more partitions than rows. `source`
  // must outlive the stream.
  static absl::StatusOr<std::unique_ptr<BatchStream>> Start(const DataSource& source,
                                                            const BatchStreamOptions& options);
  // Stops and joins the thread.
  ~BatchStream();

  // Waits for a batch. A reader's error, from then on always; CANCELLED after Stop().
  absl::StatusOr<Batch> Next();
  // Wakes Next() and ends the thread soon. Any thread may call it.
  void Stop();
  // Batches used so far, the ones of options.position included. For the consumer's thread.
  uint64_t position() const { return position_; }
  // Rows of the partition that come in an epoch.
  uint64_t rows() const { return rows_; }

 private:
  BatchStream(std::unique_ptr<EpochReader> reader, const BatchStreamOptions& options,
              const DataSource& source, uint64_t rows);
  void Fill();
  absl::StatusOr<Batch> MakeBatch();

  const ExampleFormat format_;
  const uint32_t batch_size_;
  const uint64_t rows_;
  uint64_t position_;
  uint64_t to_skip_;  // examples of the first epoch that were used before; the thread's own
  std::unique_ptr<EpochReader> reader_;  // the thread's own
  BoundedQueue queue_;
  std::thread thread_;
};

}  // namespace tally
