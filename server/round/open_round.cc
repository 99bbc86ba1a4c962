#include "server/round/open_round.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/value_codec.h"
#include "common/update/round_context.h"
#include "server/round/mask_selection.h"
#include "server/round/round_kind.h"

namespace tally {
namespace {

// Payloads kept before they are added up. More at once are faster; fewer bound the memory.
constexpr size_t kStagedVotes = 16;
// Payloads that are read from the disk at once.
constexpr size_t kReadTogether = 8;

}  // namespace

OpenRound::OpenRound(v1::RoundSpec spec, ChunkGrid grid, const Reduction* reduction,
                     uint32_t quorum, absl::Duration opened_at,
                     std::unique_ptr<StagedContributions> staged, MaskPointer mask)
    : spec_(std::move(spec)),
      grid_(std::move(grid)),
      reduction_(reduction),
      quorum_(quorum),
      opened_at_(opened_at),
      mask_(std::move(mask)),
      staged_(std::move(staged)),
      parts_(kMaxWorkers + 1),
      aggregate_(grid_.size()) {
  chunks_.reserve(grid_.size());
  for (uint32_t i = 0; i < grid_.size(); ++i) chunks_.push_back(std::make_unique<ChunkState>());
  if (staged_ == nullptr) return;
  for (const StagedPart& found : staged_->found()) TakeUp(found);
}

void OpenRound::TakeUp(const StagedPart& found) {
  WorkerPart& part = parts_[found.worker];
  part.digests = found.digests;
  part.bytes = found.bytes;
  part.broken_off = true;
  for (uint32_t i = 0; i < grid_.size(); ++i) {
    if (!found.digests[i].has_value()) continue;
    ++part.chunks;
    chunks_[i]->arrived.set(found.worker);
  }
  if (found.end.has_value()) End(found.worker, *found.end).IgnoreError();  // then it is not complete
}

void OpenRound::Await(uint32_t worker) {
  if (!contributed_.test(worker) && !abstained_.test(worker)) awaited_.set(worker);
}

void OpenRound::NoLongerAwait(uint32_t worker) {
  awaited_.reset(worker);
  if (contributed_.test(worker)) return;
  if (on_disk()) {
    parts_[worker].broken_off = true;
    return;
  }
  BeginAnew(worker);
}

void OpenRound::BeginAnew(uint32_t worker) {
  const uint32_t attempt = parts_[worker].attempt + 1;
  parts_[worker] = WorkerPart();
  parts_[worker].attempt = attempt;
  for (const auto& chunk : chunks_) chunk->arrived.reset(worker);
}

void OpenRound::Abstain(uint32_t worker) {
  awaited_.reset(worker);
  abstained_.set(worker);
}

absl::StatusOr<Booking> OpenRound::Book(uint32_t worker, uint32_t index, uint64_t digest,
                                        size_t bytes) {
  if (index >= grid_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("round ", spec_.round(), ": chunk ", index,
                                                   ": expected an index below ", grid_.size()));
  }
  WorkerPart& part = parts_[worker];
  // A sender that goes on does so behind what Held has told it.
  if (std::exchange(part.broken_off, false) && index == 0) BeginAnew(worker);
  if (part.digests.empty()) part.digests.resize(grid_.size());
  std::optional<uint64_t>& known = part.digests[index];
  if (known.has_value()) {
    // Known, but its way to the disk has failed: it is wanted again.
    const bool lost = on_disk() && !chunks_[index]->arrived.test(worker);
    if (*known == digest) return Booking{lost, part.attempt};
    return absl::InvalidArgumentError(
        absl::StrCat("round ", spec_.round(), ": chunk ", index, ": sent before with digest ",
                     DigestToString(*known), ", now with ", DigestToString(digest)));
  }
  known = digest;
  part.bytes += bytes;
  return Booking{true, part.attempt};
}

v1::HeldChunks OpenRound::Held(uint32_t worker) const {
  v1::HeldChunks held;
  if (!on_disk()) return held;
  Digester digester;
  for (uint32_t i = 0; i < grid_.size() && chunks_[i]->arrived.test(worker); ++i) {
    digester.AddUint64(*parts_[worker].digests[i]);
    held.set_chunks(i + 1);
  }
  held.set_digest(digester.Finish());
  held.set_complete(contributed_.test(worker));
  return held;
}

absl::Status OpenRound::StageEnd(uint32_t worker, uint32_t attempt,
                                 const v1::ContributionEnd& end) {
  return on_disk() ? staged_->End(worker, attempt, end) : absl::OkStatus();
}

absl::Status OpenRound::Stage(uint32_t worker, uint32_t attempt, uint32_t index, uint64_t digest,
                              Bytes payload) {
  if (on_disk()) return staged_->Append(worker, attempt, index, digest, payload);
  ChunkState& chunk = *chunks_[index];
  absl::MutexLock lock(&chunk.mutex);
  if (chunk.finished || chunk.added.test(worker)) return absl::OkStatus();
  const auto earlier = std::find_if(chunk.staged.begin(), chunk.staged.end(),
                                    [&](const StagedPayload& s) { return s.worker == worker; });
  if (earlier != chunk.staged.end()) {
    if (earlier->attempt < attempt) *earlier = {worker, attempt, std::move(payload)};
    return absl::OkStatus();
  }
  chunk.staged.push_back({worker, attempt, std::move(payload)});
  if (reduction_->counts_whole() || chunk.staged.size() < kStagedVotes) return absl::OkStatus();
  return AddStaged(index, chunk, WorkerSet().set());
}

bool OpenRound::IsComplete(const ChunkState& chunk) const {
  const WorkerSet participants = awaited_ | contributed_;
  return !reduction_->counts_whole() && (chunk.arrived & ~abstained_).count() >= quorum_ &&
         (participants & ~chunk.arrived).none();
}

void OpenRound::Claim(ChunkState& chunk) {
  chunk.claimed = true;
  chunk.counted = reduction_->counts_whole() ? contributed_ : chunk.arrived & ~abstained_;
}

bool OpenRound::Arrived(uint32_t worker, uint32_t attempt, uint32_t index) {
  if (attempt != parts_[worker].attempt) return false;  // the worker has left since
  ChunkState& chunk = *chunks_[index];
  if (chunk.arrived.test(worker)) return false;
  chunk.arrived.set(worker);
  ++parts_[worker].chunks;
  if (chunk.claimed || !IsComplete(chunk)) return false;
  Claim(chunk);
  return true;
}

std::vector<uint32_t> OpenRound::ClaimComplete() {
  std::vector<uint32_t> claimed;
  for (uint32_t i = 0; i < grid_.size(); ++i) {
    ChunkState& chunk = *chunks_[i];
    if (chunk.claimed || !IsComplete(chunk)) continue;
    Claim(chunk);
    claimed.push_back(i);
  }
  return claimed;
}

std::vector<uint32_t> OpenRound::ClaimRest() {
  std::vector<uint32_t> claimed;
  for (uint32_t i = 0; i < grid_.size(); ++i) {
    if (chunks_[i]->claimed) continue;
    Claim(*chunks_[i]);
    claimed.push_back(i);
  }
  return claimed;
}

absl::Status OpenRound::CheckEnd(uint32_t worker, const v1::ContributionEnd& end) const {
  const WorkerPart& part = parts_[worker];
  if (end.chunks() != grid_.size() || part.chunks != grid_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", spec_.round(), ": expected ", grid_.size(), " chunks, announced ",
                     end.chunks(), ", received ", part.chunks));
  }
  Digester digester;
  for (const std::optional<uint64_t>& digest : part.digests) digester.AddUint64(*digest);
  if (digester.Finish() != end.digest()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "round ", spec_.round(), ": contribution digest: expected ", DigestToString(end.digest()),
        ", found ", DigestToString(digester.Finish())));
  }
  // A weight or a sum that one worker could spoil for all.
  if (static_cast<double>(end.samples()) > kMaxWeight || !std::isfinite(end.loss_sum())) {
    return absl::InvalidArgumentError(absl::StrCat("round ", spec_.round(), ": ", end.samples(),
                                                   " samples with the loss ", end.loss_sum()));
  }
  return absl::OkStatus();
}

absl::Status OpenRound::End(uint32_t worker, const v1::ContributionEnd& end) {
  TALLY_RETURN_IF_ERROR(CheckEnd(worker, end));
  parts_[worker].samples = end.samples();
  parts_[worker].loss_sum = end.loss_sum();
  parts_[worker].score = end.score();
  awaited_.reset(worker);
  contributed_.set(worker);
  return absl::OkStatus();
}

ChunkContext OpenRound::ContextOf(uint32_t index) const {
  const IndexSet* set = IsSparse(spec_) ? mask_->Find(grid_[index]) : nullptr;
  return ContributionContext(spec_, grid_[index], set).value();
}

// Fixed by the time that it counts: the round is closing.
double OpenRound::WeightOf(uint32_t worker) const {
  if (!reduction_->counts_whole() || spec_.uniform_weights()) return 1.0;
  return static_cast<double>(parts_[worker].samples);
}

std::vector<Contribution> OpenRound::CountStaged(ChunkState& chunk, const WorkerSet& counted) {
  // By worker index: sums of floats must not depend on who was first.
  std::sort(chunk.staged.begin(), chunk.staged.end(),
            [](const StagedPayload& a, const StagedPayload& b) { return a.worker < b.worker; });
  std::vector<Contribution> contributions;
  for (const StagedPayload& staged : chunk.staged) {
    if (!counted.test(staged.worker)) continue;
    chunk.added.set(staged.worker);
    contributions.push_back({staged.payload, WeightOf(staged.worker)});
  }
  return contributions;
}

absl::Status OpenRound::AddStaged(uint32_t index, ChunkState& chunk, const WorkerSet& counted) {
  if (chunk.accumulator == nullptr) chunk.accumulator = reduction_->NewAccumulator(ContextOf(index));
  const absl::Status status = chunk.accumulator->Add(CountStaged(chunk, counted));
  chunk.staged.clear();
  return status;
}

// By worker index, some at a time: memory does not grow with the workers.
absl::StatusOr<Bytes> OpenRound::ReduceFromDisk(uint32_t index, const WorkerSet& workers) const {
  const std::unique_ptr<ChunkAccumulator> accumulator =
      reduction_->NewAccumulator(ContextOf(index));
  std::vector<Bytes> payloads;
  std::vector<Contribution> contributions;
  const auto add = [&] {
    const absl::Status added = accumulator->Add(contributions);
    payloads.clear();
    contributions.clear();
    return added;
  };
  payloads.reserve(kReadTogether);
  for (uint32_t worker = 0; worker <= kMaxWorkers; ++worker) {
    if (!workers.test(worker)) continue;
    TALLY_ASSIGN_OR_RETURN(Bytes payload, staged_->Read(worker, index));
    payloads.push_back(std::move(payload));
    contributions.push_back({payloads.back(), WeightOf(worker)});
    if (payloads.size() == kReadTogether) TALLY_RETURN_IF_ERROR(add());
  }
  TALLY_RETURN_IF_ERROR(add());
  return accumulator->Finish();
}

absl::StatusOr<Bytes> OpenRound::FinishChunk(uint32_t index, ChunkState& chunk) {
  if (on_disk()) {
    chunk.added = chunk.counted;
    return ReduceFromDisk(index, chunk.counted);
  }
  // Everything at once needs no counts in memory.
  if (chunk.accumulator == nullptr) {
    return reduction_->Reduce(ContextOf(index), CountStaged(chunk, chunk.counted));
  }
  TALLY_RETURN_IF_ERROR(AddStaged(index, chunk, chunk.counted));
  return chunk.accumulator->Finish();
}

absl::StatusOr<AggregateChunk> OpenRound::Reduce(uint32_t index) {
  ChunkState& chunk = *chunks_[index];
  absl::MutexLock lock(&chunk.mutex);
  chunk.finished = true;
  absl::StatusOr<Bytes> payload = FinishChunk(index, chunk);
  chunk.accumulator.reset();
  std::vector<StagedPayload>().swap(chunk.staged);
  TALLY_RETURN_IF_ERROR(payload.status());
  AggregateChunk result;
  result.digest = Digest64(payload->data(), payload->size());
  result.voters = static_cast<uint32_t>(chunk.added.count());
  result.payload = std::make_shared<const Bytes>(*std::move(payload));
  return result;
}

void OpenRound::RestrictTo(absl::Span<const uint32_t> workers) {
  WorkerSet kept;
  for (const uint32_t worker : workers) kept.set(worker);
  contributed_ &= kept;
}

absl::StatusOr<AggregateChunk> OpenRound::ReduceTrial(uint32_t index,
                                                      absl::Span<const uint32_t> workers) const {
  WorkerSet set;
  for (const uint32_t worker : workers) set.set(worker);
  TALLY_ASSIGN_OR_RETURN(Bytes payload, ReduceFromDisk(index, set));
  AggregateChunk chunk;
  chunk.digest = Digest64(payload.data(), payload.size());
  chunk.voters = static_cast<uint32_t>(workers.size());
  chunk.payload = std::make_shared<const Bytes>(std::move(payload));
  return chunk;
}

absl::StatusOr<std::vector<float>> OpenRound::MeanScores() {
  if (IsServersOwn(spec_)) return RandomScores(grid_.elements(), spec_.tie_key());
  std::vector<float> scores(grid_.elements());
  absl::Span<float> rest = absl::MakeSpan(scores);
  for (uint32_t i = 0; i < grid_.size(); ++i) {
    ChunkState& chunk = *chunks_[i];
    absl::MutexLock lock(&chunk.mutex);
    chunk.finished = true;
    TALLY_ASSIGN_OR_RETURN(const Bytes payload, FinishChunk(i, chunk));
    TALLY_ASSIGN_OR_RETURN(const DenseView means, ParseDense(grid_[i].count, payload));
    DecodeValues(means.dtype, means.values, rest.first(grid_[i].count));
    rest.remove_prefix(grid_[i].count);
  }
  return scores;
}

absl::StatusOr<std::vector<AggregateChunk>> OpenRound::ReduceToMask() {
  TALLY_ASSIGN_OR_RETURN(const std::vector<float> scores, MeanScores());
  std::vector<AggregateChunk> chunks;
  for (Bytes& set : SelectMask(grid_, scores, spec_.mask_size())) {
    AggregateChunk chunk;
    chunk.digest = Digest64(set.data(), set.size());
    chunk.voters = static_cast<uint32_t>(chunks_.front()->counted.count());
    chunk.payload = std::make_shared<const Bytes>(std::move(set));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

void OpenRound::SetAggregate(uint32_t index, AggregateChunk chunk) {
  aggregate_[index] = std::move(chunk);
  ++reduced_;
}

v1::RoundClosed OpenRound::Closed() const {
  v1::RoundClosed closed;
  closed.set_round(spec_.round());
  closed.set_chunks(grid_.size());
  Digester digester;
  for (const AggregateChunk& chunk : aggregate_) digester.AddUint64(chunk.digest);
  closed.set_digest(digester.Finish());
  uint64_t samples = 0;
  double loss_sum = 0;
  for (uint32_t worker = 0; worker <= kMaxWorkers; ++worker) {
    if (!contributed_.test(worker)) continue;
    closed.add_voters(worker);
    samples += parts_[worker].samples;
    loss_sum += parts_[worker].loss_sum;
  }
  closed.set_samples(samples);
  closed.set_loss_sum(loss_sum);
  return closed;
}

}  // namespace tally
