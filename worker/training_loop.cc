#include "worker/training_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/checkpoint/hf_directory.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "spdlog/spdlog.h"
#include "worker/evaluation.h"
#include "worker/exchange/fetch_model.h"

namespace tally {
namespace {

// Errors that the same stream opened again would meet again.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:  // the job is no longer run
      return true;
    default:
      return false;
  }
}

// What a memory fault does; for tests alone (common/base/fault_point.h).
void FlipBit(float& value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits ^= 1;
  std::memcpy(&value, &bits, sizeof(bits));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingLoop>> TrainingLoop::Create(TrainingOptions options) {
  std::unique_ptr<TrainingLoop> loop(new TrainingLoop(std::move(options)));
  TALLY_RETURN_IF_ERROR(loop->Build());
  return loop;
}

TrainingLoop::~TrainingLoop() = default;

absl::Status TrainingLoop::Build() {
  TALLY_ASSIGN_OR_RETURN(model_,
                         MakeModel(job().model().architecture(), job().model().config_json()));
  TALLY_RETURN_IF_ERROR(OpenData());
  TALLY_ASSIGN_OR_RETURN(flat_, FlatParameters::Create(*model_));
  replica_ = std::make_unique<Replica>(flat_->layout(), flat_->parameters());
  TALLY_ASSIGN_OR_RETURN(
      method_, MakeMethod({job().method(), job().seed(), options_.assignment.index()},
                          flat_->layout()));
  TALLY_RETURN_IF_ERROR(OpenCheckpoint());
  return StartBatches();
}

absl::Status TrainingLoop::OpenData() {
  absl::StatusOr<std::unique_ptr<DataSource>> data = OpenDataSource(options_.data);
  if (!data.ok()) {  // this machine's fault, whatever it is
    return absl::FailedPreconditionError(
        absl::StrCat("data set ", job().data().name(), ": ", data.status().message()));
  }
  data_ = *std::move(data);
  return model_->CheckFits(data_->info());
}

// A worker that joined later shares the rows of one that was there from the start.
uint32_t TrainingLoop::share() const {
  return options_.shared_data ? options_.assignment.index() % shares() : 0;
}

uint32_t TrainingLoop::shares() const {
  return options_.shared_data ? std::max<uint32_t>(options_.assignment.count(), 1) : 1;
}

BatchStreamOptions TrainingLoop::BatchOptions() const {
  BatchStreamOptions batches;
  batches.partition = share();
  batches.partitions = shares();
  batches.batch_size = job().batch_size();
  batches.hold_out_every = job().data().hold_out_every();
  batches.shuffle_buffer = job().data().shuffle_buffer();
  batches.seed = job().seed();
  batches.worker = options_.assignment.index();
  batches.position = first_position_;
  return batches;
}

absl::Status TrainingLoop::StartBatches() {
  if (job().method().lofi().soup() == "greedy") {
    TALLY_ASSIGN_OR_RETURN(const RowSet rows, PartitionRows(data_->info().train_examples, share(),
                                                            shares(), "training split"));
    if (rows.count < job().data().hold_out_every()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.hold_out_every: expected at most a worker's ", rows.count,
          " rows, so that there are some to score a greedy soup on, found ",
          job().data().hold_out_every()));
    }
  }
  TALLY_ASSIGN_OR_RETURN(batches_, BatchStream::Start(*data_, BatchOptions()));
  return absl::OkStatus();
}

void TrainingLoop::Report(const std::string& level, const std::string& message) const {
  spdlog::log(spdlog::level::from_str(level), "job {}: {}", options_.assignment.job_id(), message);
  options_.report(level, message);
}

absl::Status TrainingLoop::Run() {
  const absl::Status status = RunStreams();
  KeepOrRemoveCheckpoint();
  return status;
}

absl::Status TrainingLoop::RunStreams() {
  for (;;) {
    const absl::Status status = RunStream();
    if (stopped_) return absl::OkStatus();
    // This replica is wrong, by the server's word (which is in the job's log) or by OnRound.
    if (absl::IsAborted(status)) replica_->Invalidate();
    if (WaitOrLeft(absl::ZeroDuration())) return absl::CancelledError("no longer at this job");
    if (IsFinal(status)) return status;
    const absl::Duration pause = backoff_.Next();
    spdlog::warn("job {}: exchange: {}; again in {}", options_.assignment.job_id(),
                 std::string(status.message()),
                 absl::FormatDuration(absl::Trunc(pause, absl::Milliseconds(1))));
    if (WaitOrLeft(pause)) return absl::CancelledError("no longer at this job");
  }
}

bool TrainingLoop::WaitOrLeft(absl::Duration pause) {
  const auto left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return this->left(); };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&left), pause);
}

void TrainingLoop::Leave(Leaving leaving) {
  absl::MutexLock lock(&mutex_);
  // A daemon that stops after a release has nothing to keep.
  if (leaving_ != Leaving::kReleased) leaving_ = leaving;
  batches_->Stop();
  if (client_ != nullptr) client_->Cancel();
}

v1::Attach TrainingLoop::AttachMessage() const {
  v1::Attach attach;
  attach.set_job_id(options_.assignment.job_id());
  attach.set_worker(options_.worker);
  attach.set_instance(options_.instance);
  attach.set_layout_digest(flat_->layout().digest());
  *attach.mutable_layout() = flat_->layout().ToProto();
  attach.set_has_parameters(replica_->round().has_value());
  if (!replica_->round().has_value()) return attach;
  attach.set_round(*replica_->round());
  attach.set_history(replica_->history());
  attach.set_first_held(replica_->held().first());
  return attach;
}

// One stream from Attach to its end. OK only when the server closed it.
absl::Status TrainingLoop::RunStream() {
  if (!replica_->Settle().ok()) replica_->Invalidate();
  std::shared_ptr<ExchangeClient> client = ExchangeClient::Open(options_.channel, AttachMessage());
  {
    absl::MutexLock lock(&mutex_);
    if (left()) return absl::CancelledError("no longer at this job");
    client_ = client;
  }
  stream_ = client.get();
  live_ = false;
  absl::Status status;
  while (status.ok() && !stopped_) {
    absl::StatusOr<std::optional<ReceivedFrame>> received = client->Receive();
    if (!received.ok()) {
      status = received.status();
    } else if (!received->has_value()) {
      status = absl::UnavailableError("the server closed the stream");
    } else {
      backoff_.Reset();
      status = OnFrame(**received);
    }
  }
  absl::MutexLock lock(&mutex_);
  client_ = nullptr;
  stream_ = nullptr;
  return status;
}

absl::Status TrainingLoop::OnFrame(const ReceivedFrame& received) {
  const v1::ServerFrame& frame = received.frame;
  switch (frame.body_case()) {
    case v1::ServerFrame::kAttached:
      return frame.attached().send_base() ? SendBase() : absl::OkStatus();
    case v1::ServerFrame::kSnapshot:
      return replica_->BeginSnapshot(frame.snapshot());
    case v1::ServerFrame::kSnapshotEnd:
      return replica_->EndSnapshot(frame.snapshot_end());
    case v1::ServerFrame::kPastRound:
      live_ = false;
      return replica_->BeginPastRound(frame.past_round(), received.payload);
    case v1::ServerFrame::kRound:
      return OnRound(frame);
    case v1::ServerFrame::kHandBack:
      return replica_->held().HandBack(
          frame.hand_back().first(), frame.hand_back().last(),
          [this](const v1::WorkerFrame& sent, absl::Span<const grpc::Slice> payload) {
            stream_->Send(sent, payload);
          });
    case v1::ServerFrame::kChunk:
      if (frame.chunk().kind() == v1::TRIAL) return TakeTrialChunk(frame.chunk(), received.payload);
      return replica_->TakeChunk(frame.chunk(), received.payload);
    case v1::ServerFrame::kTrial:
      return OnTrial(frame.trial());
    case v1::ServerFrame::kClosed:
      return AfterRound(frame.closed());
    case v1::ServerFrame::kRefused:
      spdlog::warn("round {}: refused by the server: {}", frame.refused().round(),
                   frame.refused().reason());
      return absl::OkStatus();
    case v1::ServerFrame::kStop:
      spdlog::info("job {}: {} ({})", options_.assignment.job_id(),
                   v1::JobState_Name(frame.stop().state()), frame.stop().reason());
      stopped_ = true;
      return absl::OkStatus();
    default:
      return absl::InternalError("a frame that this version does not know");
  }
}

absl::Status TrainingLoop::OnRound(const v1::ServerFrame& frame) {
  const v1::RoundSpec& spec = frame.round();
  if (replica_->round().has_value() && spec.round() <= *replica_->round()) {
    const std::string what = absl::StrCat(
        "round ", spec.round(), " is open, but this worker is at ", *replica_->round());
    // Attaching again tells the server. If it insists these rounds are not the ledger's.
    if (!std::exchange(ahead_, !ahead_)) return absl::UnavailableError(what);
    Report("warning", absl::StrCat(what, ": its rounds are not the ledger's, it takes a snapshot"));
    return absl::AbortedError(what);
  }
  ahead_ = false;
  live_ = true;
  TALLY_RETURN_IF_ERROR(replica_->BeginRound(spec));
  replica_->DropHeld(frame.synced_round());
  SayHowItStarts(spec);
  TALLY_RETURN_IF_ERROR(Contribute(spec, frame.held()));
  CheckpointIfDue();
  return absl::OkStatus();
}

absl::Status TrainingLoop::LoadBase() {
  const v1::ModelSpec& model = job().model();
  if (model.base_digest().empty()) return model_->Initialise(job().seed());
  TALLY_ASSIGN_OR_RETURN(
      const std::string folder,
      FetchModel(options_.channel, model.base_digest(), options_.state_folder));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> checkpoint,
                         CheckpointReader::Open(folder));
  TALLY_RETURN_IF_ERROR(
      WithContext(flat_->Load(*checkpoint, {.skip_head = model.reset_head()}), "base model"));
  return model.reset_head() ? model_->ResetHead(job().seed()) : absl::OkStatus();
}

// This worker is elected: everybody gets these bytes, itself included.
absl::Status TrainingLoop::SendBase() {
  TALLY_RETURN_IF_ERROR(LoadBase());
  replica_->AdoptBase();
  v1::WorkerFrame begin;
  *begin.mutable_base_begin()->mutable_layout() = flat_->layout().ToProto();
  begin.mutable_base_begin()->set_config_json(model_->config_json());
  stream_->Send(begin);
  const ChunkGrid grid = DenseGrid(flat_->layout());
  Digester digester;
  for (uint32_t i = 0; i < grid.size(); ++i) {
    const absl::Span<const float> values =
        flat_->parameters().subspan(grid[i].first, grid[i].count);
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    v1::WorkerFrame frame;
    v1::ChunkHeader* header = frame.mutable_chunk();
    header->set_kind(v1::PARAMETERS);
    header->set_index(i);
    header->set_digest(Digest64(bytes, values.size() * sizeof(float)));
    digester.AddUint64(header->digest());
    stream_->Send(frame, {OwnedSlice(Bytes(bytes, bytes + values.size() * sizeof(float)))});
  }
  v1::WorkerFrame end;
  end.mutable_base_end()->set_chunks(grid.size());
  end.mutable_base_end()->set_digest(digester.Finish());
  stream_->Send(end);
  return absl::OkStatus();
}

absl::Status TrainingLoop::Contribute(const v1::RoundSpec& spec,
                                      const v1::HeldChunks& held) {
  if (stream_->latest_closed() >= spec.round()) return absl::OkStatus();  // too late already
  if (contribution_.IsFor(spec)) {
    contribution_.SendAgain(stream_, held);
    return absl::OkStatus();
  }
  if (held.complete()) return absl::OkStatus();
  contribution_.Begin(spec);
  if (spec.buffers()) {
    return ContributeBuffers(spec);
  }
  if (spec.mask_size() > 0) return ContributeScores(spec);
  if (spec.local_steps() > 0) return ContributeLocal(spec);
  TALLY_ASSIGN_OR_RETURN(const Score score, Step(spec));
  v1::ContributionEnd end;
  end.set_samples(score.count);
  end.set_loss_sum(score.loss_sum);
  end.set_nonfinite(nonfinite_);
  if (!std::isfinite(score.loss_sum)) {
    end.set_loss_sum(0);
    end.set_abstain("the loss is not finite");
  }
  last_samples_ = score.count;
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

// Forward and backward; each block's chunks leave as soon as its gradient is complete, while
// backward goes on to the earlier blocks.
absl::StatusOr<Score> TrainingLoop::Step(const v1::RoundSpec& spec) {
  TALLY_ASSIGN_OR_RETURN(const Batch batch, batches_->Next());
  spdlog::debug("round {}: a step begins", spec.round());
  encode_error_ = absl::OkStatus();
  nonfinite_ = 0;
  torn_ = true;
  flat_->ZeroGradients();
  flat_->SetGradientReadyCallback([this, &spec](uint32_t block) { EncodeBlock(spec, block); });
  const absl::StatusOr<Score> score = model_->AccumulateGradients(batch);
  const size_t left_early = contribution_.chunks();
  const absl::Status finished = flat_->FinishBackward();
  flat_->SetGradientReadyCallback(nullptr);
  TALLY_RETURN_IF_ERROR(score.status());
  TALLY_RETURN_IF_ERROR(finished);
  TALLY_RETURN_IF_ERROR(encode_error_);
  torn_ = false;
  spdlog::debug("round {}: {} of {} chunks left before backward ended", spec.round(), left_early,
                contribution_.chunks());
  return *score;
}

void TrainingLoop::EncodeBlock(const v1::RoundSpec& spec, uint32_t block) {
  const auto [first, end] = replica_->grid().BlockRange(block);
  for (uint32_t index = first; index < end && encode_error_.ok(); ++index) {
    const Chunk& chunk = replica_->grid()[index];
    EncodeStats stats;
    absl::StatusOr<Bytes> payload =
        method_->Encode(spec, chunk, flat_->gradients().subspan(chunk.first, chunk.count), &stats);
    nonfinite_ += stats.nonfinite;
    encode_error_ = payload.status();
    if (payload.ok()) contribution_.AddChunk(index, *std::move(payload), stream_);
  }
}

// BatchNorm statistics and the like, weighted by the samples of the last step.
absl::Status TrainingLoop::ContributeBuffers(const v1::RoundSpec& spec) {
  if (spec.recalibrate_batches() > 0) TALLY_RETURN_IF_ERROR(Recalibrate(spec));
  const ChunkGrid& grid = replica_->grid();
  for (uint32_t index = 0; index < grid.size(); ++index) {
    contribution_.AddChunk(
        index, WriteDense(flat_->parameters().subspan(grid[index].first, grid[index].count)),
        stream_);
  }
  v1::ContributionEnd end;
  end.set_samples(last_samples_ > 0 ? last_samples_ : job().batch_size());
  contribution_.End(end, stream_);
  return absl::OkStatus();
}

// The statistics of the local models do not fit their average: they are computed anew with the common
// parameters, on batches that are a function of seed, worker and round.
absl::Status TrainingLoop::Recalibrate(const v1::RoundSpec& spec) {
  BatchStreamOptions options = BatchOptions();
  options.seed = StreamKey(job().seed(), 0, spec.round(), RandomPurpose::kRecalibrate);
  options.position = 0;
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<BatchStream> batches,
                         BatchStream::Start(*data_, options));
  for (uint32_t i = 0; i < spec.recalibrate_batches(); ++i) {
    if (WaitOrLeft(absl::ZeroDuration())) return absl::CancelledError("no longer at this job");
    TALLY_ASSIGN_OR_RETURN(const Batch batch, batches->Next());
    TALLY_RETURN_IF_ERROR(model_->UpdateStatistics(batch, i));
    SetProgress(spec.round(), i + 1, spec.recalibrate_batches());
  }
  return absl::OkStatus();
}

absl::Status TrainingLoop::AfterRound(const v1::RoundClosed& closed) {
  TALLY_RETURN_IF_ERROR(replica_->CloseRound(closed));
  ClearProgress();
  if (FaultErrno("worker.flip_bit") != 0) FlipBit(flat_->parameters()[0]);
  if (!live_) return absl::OkStatus();
  live_ = false;
  const v1::RoundSpec spec = replica_->spec();
  if (spec.compare_digest()) {
    v1::WorkerFrame frame;
    *frame.mutable_parameters() = replica_->DigestsOfParameters();
    stream_->Send(frame);
  }
  return spec.evaluate() ? Evaluate(spec) : absl::OkStatus();
}

// This worker's share of the test split; one that joined later has none of shared data.
absl::Status TrainingLoop::Evaluate(const v1::RoundSpec& spec) {
  // Of shared data the first ones' shares are all of it; the server waits for the others' word, too.
  Score score;
  if (!options_.shared_data || options_.assignment.index() < shares()) {
    TALLY_ASSIGN_OR_RETURN(score, EvaluateShare(*model_, *data_, share(), shares()));
  }
  v1::WorkerFrame frame;
  v1::Evaluation* evaluation = frame.mutable_evaluation();
  evaluation->set_round(spec.round());
  evaluation->set_correct(score.correct);
  evaluation->set_count(score.count);
  evaluation->set_loss_sum(score.loss_sum);
  stream_->Send(frame);
  return absl::OkStatus();
}

}  // namespace tally
