// The open round: what has come in, and what was made of it. Chunk by chunk, each reduced as soon
// as the last contribution to it is there.
//
// Bookkeeping is guarded by the caller's lock ("locked" below); staging and reducing, which touch
// the payloads, run without it, each chunk under its own lock, so that chunks go on in parallel.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"
#include "common/update/mask.h"
#include "proto/tally/v1/training.pb.h"
#include "server/staging/staged_contributions.h"

namespace tally {

constexpr uint32_t kMaxWorkers = 255;
using WorkerSet = std::bitset<kMaxWorkers + 1>;

// What one worker has sent in this round.
struct WorkerPart {
  // Grows when the worker leaves before its contribution is complete: what it sends when it is back
  // is another attempt, perhaps with other bytes, and replaces what is not reduced yet.
  uint32_t attempt = 0;
  std::vector<std::optional<uint64_t>> digests;  // by chunk, set once it is booked
  uint32_t chunks = 0;                           // that have arrived
  uint64_t bytes = 0;  // of payloads
  uint64_t samples = 0;
  double loss_sum = 0;
  v1::HeldOutScore score;
  // Its sender is gone; what lies on the disk waits for it to go on, or to begin anew with chunk 0.
  bool broken_off = false;
};

// A chunk on its way in.
struct Booking {
  bool fresh = false;  // false: it came before, and does not count again
  uint32_t attempt = 0;
};

// A finished chunk of the aggregate.
struct AggregateChunk {
  std::shared_ptr<const Bytes> payload;
  uint64_t digest = 0;
  uint32_t voters = 0;
};

class OpenRound {
 public:
  // With `staged` contributions lie on the disk, those found there included; the reduction counts
  // whole then. The spec's dtype is one that there is, and `mask` is the one that it names.
  OpenRound(v1::RoundSpec spec, ChunkGrid grid, const Reduction* reduction, uint32_t quorum,
            absl::Duration opened_at, std::unique_ptr<StagedContributions> staged = nullptr,
            MaskPointer mask = nullptr);

  const v1::RoundSpec& spec() const { return spec_; }
  const ChunkGrid& grid() const { return grid_; }
  const Reduction& reduction() const { return *reduction_; }
  // Reduction::CheckContribution with the chunk's context.
  absl::Status CheckContribution(uint32_t index, ByteSpan payload) const {
    return reduction_->CheckContribution(ContextOf(index), payload);
  }
  absl::Duration opened_at() const { return opened_at_; }

  // -- locked --
  void Await(uint32_t worker);
  // The worker is gone. A complete contribution stays; of another one only what is reduced or on the
  // disk does.
  void NoLongerAwait(uint32_t worker);
  // Its further chunks are refused and it is not waited for. What it has sent counts only as far as
  // it is reduced.
  void Abstain(uint32_t worker);
  bool IsAwaited(uint32_t worker) const { return awaited_.test(worker); }
  bool HasContributed(uint32_t worker) const { return contributed_.test(worker); }
  bool HasAbstained(uint32_t worker) const { return abstained_.test(worker); }
  uint32_t contributed() const { return static_cast<uint32_t>(contributed_.count()); }
  uint32_t abstained() const { return static_cast<uint32_t>(abstained_.count()); }
  uint32_t awaited() const { return static_cast<uint32_t>(awaited_.count()); }
  const WorkerSet& contributors() const { return contributed_; }
  const WorkerPart& part(uint32_t worker) const { return parts_[worker]; }

  // What is on the disk of the worker's contribution up to the first chunk that is not.
  v1::HeldChunks Held(uint32_t worker) const;
  // Books a chunk before its payload is staged. INVALID_ARGUMENT: not a chunk of this round, or
  // another payload than before in the same attempt.
  absl::StatusOr<Booking> Book(uint32_t worker, uint32_t index, uint64_t digest, size_t bytes);
  // After staging. True: the caller is to reduce the chunk now.
  bool Arrived(uint32_t worker, uint32_t attempt, uint32_t index);
  // Checks a contribution's end against what came.
  absl::Status CheckEnd(uint32_t worker, const v1::ContributionEnd& end) const;
  // The contribution is complete. On error nothing changes.
  absl::Status End(uint32_t worker, const v1::ContributionEnd& end);
  // Chunks that nobody reduces yet and that are complete now (after a worker left or abstained).
  std::vector<uint32_t> ClaimComplete();
  // All chunks that nobody reduces yet: the round is closing.
  std::vector<uint32_t> ClaimRest();
  // Of those who have contributed only these count. Before chunks are claimed.
  void RestrictTo(absl::Span<const uint32_t> workers);
  void SetAggregate(uint32_t index, AggregateChunk chunk);
  bool AllReduced() const { return reduced_ == grid_.size(); }
  const std::vector<AggregateChunk>& aggregate() const { return aggregate_; }
  // The contributions' totals, and the aggregate's digest once all is reduced.
  v1::RoundClosed Closed() const;

  // -- not locked --
  // Keeps the payload until the chunk is reduced. A payload that comes too late is dropped.
  absl::Status Stage(uint32_t worker, uint32_t attempt, uint32_t index, uint64_t digest,
                     Bytes payload);
  bool on_disk() const { return staged_ != nullptr; }
  // Waits until the contribution is on the disk, if that is where it goes. After CheckEnd, before End.
  absl::Status StageEnd(uint32_t worker, uint32_t attempt, const v1::ContributionEnd& end);
  // By the thread that has claimed the chunk, once. Counts who was awaited or had contributed when
  // it was claimed; for reductions that count whole, only contributors.
  absl::StatusOr<AggregateChunk> Reduce(uint32_t index);
  // The mean of these workers' contributions, which lie on the disk, without marking anything.
  absl::StatusOr<AggregateChunk> ReduceTrial(uint32_t index, absl::Span<const uint32_t> workers) const;
  // Of a mask round in place of Reduce, all chunks being claimed: the scores' means, and the mask of
  // those, by chunk. Memory meanwhile: the scores in float32.
  absl::StatusOr<std::vector<AggregateChunk>> ReduceToMask();

 private:
  struct StagedPayload {
    uint32_t worker;
    uint32_t attempt;
    Bytes payload;
  };
  struct ChunkState {
    absl::Mutex mutex;
    std::vector<StagedPayload> staged ABSL_GUARDED_BY(mutex);
    std::unique_ptr<ChunkAccumulator> accumulator ABSL_GUARDED_BY(mutex);
    WorkerSet added ABSL_GUARDED_BY(mutex);
    bool finished ABSL_GUARDED_BY(mutex) = false;
    WorkerSet arrived;     // caller's lock
    bool claimed = false;  // caller's lock
    WorkerSet counted;     // set under the caller's lock when claimed, then of the claiming thread
  };
  bool IsComplete(const ChunkState& chunk) const;
  void Claim(ChunkState& chunk);
  // What is staged of those workers, marked as added. Views, good while it stays staged.
  std::vector<Contribution> CountStaged(ChunkState& chunk, const WorkerSet& counted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mutex);
  absl::Status AddStaged(uint32_t index, ChunkState& chunk, const WorkerSet& counted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mutex);
  absl::StatusOr<Bytes> FinishChunk(uint32_t index, ChunkState& chunk)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mutex);
  absl::StatusOr<std::vector<float>> MeanScores();
  absl::StatusOr<Bytes> ReduceFromDisk(uint32_t index, const WorkerSet& workers) const;
  void TakeUp(const StagedPart& found);
  void BeginAnew(uint32_t worker);
  double WeightOf(uint32_t worker) const;
  ChunkContext ContextOf(uint32_t index) const;

  const v1::RoundSpec spec_;
  const ChunkGrid grid_;
  const Reduction* const reduction_;
  const uint32_t quorum_;
  const absl::Duration opened_at_;
  const MaskPointer mask_;
  const std::unique_ptr<StagedContributions> staged_;  // null: contributions lie in memory

  WorkerSet awaited_;
  WorkerSet contributed_;
  WorkerSet abstained_;
  std::vector<WorkerPart> parts_;
  std::vector<std::unique_ptr<ChunkState>> chunks_;
  std::vector<AggregateChunk> aggregate_;
  uint32_t reduced_ = 0;
};

}  // namespace tally
