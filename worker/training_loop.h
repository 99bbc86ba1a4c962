// One worker's part in one job: attach, catch up, and round after round a step, an exchange and the
// aggregate applied.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/backoff.h"
#include "grpcpp/channel.h"
#include "proto/tally/v1/training.pb.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/checkpoint_saver.h"
#include "worker/data/batch_stream.h"
#include "worker/data/data_source.h"
#include "worker/exchange/outgoing_contribution.h"
#include "worker/exchange/exchange_client.h"
#include "worker/exchange/replica.h"
#include "worker/flat_parameters.h"
#include "worker/local/local_parameters.h"
#include "worker/method/method.h"
#include "worker/model/model.h"

namespace tally {

struct TrainingOptions {
  std::shared_ptr<grpc::Channel> channel;
  v1::Assignment assignment;
  std::string worker;
  std::string instance;
  DataSourceOptions data;
  bool shared_data = false;  // all workers see these rows: use the assigned partition of them
  std::string state_folder;
  // Between checkpoints of the job below state_folder; infinite: none is written.
  absl::Duration checkpoint_every = absl::InfiniteDuration();
  // A line for the job's log.
  std::function<void(const std::string& level, const std::string& message)> report;
};

// Run is for one thread; Cancel and Stop may come from any other.
class TrainingLoop {
 public:
  // Builds the model, opens the data and takes up the checkpoint that there is. INVALID_ARGUMENT
  // for what is the job's own fault (an unknown architecture, a model that does not fit the data),
  // other codes for this machine's.
  static absl::StatusOr<std::unique_ptr<TrainingLoop>> Create(TrainingOptions options);
  ~TrainingLoop();

  // Until the job stops (OK), Cancel or Stop (CANCELLED), or an error that trying again would not
  // mend. Then the checkpoint goes if the job has ended or this worker's part in it; otherwise it
  // is written once more.
  absl::Status Run();
  // The server has released this worker from the job.
  void Cancel() { Leave(Leaving::kReleased); }
  // The daemon stops and is to take the job up again. The step at work is finished first.
  void Stop() { Leave(Leaving::kStopping); }
  // What it is at in the open round, for the heartbeat; nothing between rounds. From any thread.
  std::optional<v1::LocalProgress> Progress() const;

 private:
  enum class Leaving { kNo, kReleased, kStopping };

  explicit TrainingLoop(TrainingOptions options) : options_(std::move(options)) {}
  absl::Status Build();
  absl::Status OpenData();
  BatchStreamOptions BatchOptions() const;
  absl::Status StartBatches();
  const v1::JobSpec& job() const { return options_.assignment.spec(); }

  // The index of this worker's share of the data, and the number of shares.
  uint32_t share() const;
  uint32_t shares() const;
  void Report(const std::string& level, const std::string& message) const;
  void Leave(Leaving leaving);
  bool left() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return leaving_ != Leaving::kNo; }

  // The checkpoint (training_loop_checkpoint.cc).
  absl::Status OpenCheckpoint();
  absl::Status Adopt(JobCheckpoint checkpoint);
  CheckpointKey Key() const;
  JobCheckpoint CopyState() const;
  bool MayCheckpoint();
  void CheckpointIfDue();
  void KeepOrRemoveCheckpoint();
  void SayHowItStarts(const v1::RoundSpec& first);

  absl::Status RunStreams();
  absl::Status RunStream();
  v1::Attach AttachMessage() const;
  absl::Status OnRound(const v1::ServerFrame& frame);
  absl::Status OnFrame(const ReceivedFrame& received);
  absl::Status SendBase();
  absl::Status LoadBase();
  absl::Status Contribute(const v1::RoundSpec& spec, const v1::HeldChunks& held);
  absl::StatusOr<Score> Step(const v1::RoundSpec& spec);
  absl::Status ContributeBuffers(const v1::RoundSpec& spec);
  absl::Status Recalibrate(const v1::RoundSpec& spec);
  // Rounds of local steps (training_loop_local.cc).
  absl::Status ContributeLocal(const v1::RoundSpec& spec);
  absl::Status LocalSteps(const v1::RoundSpec& spec, LocalParameters& moved);
  absl::StatusOr<Score> LocalStep(const v1::RoundSpec& spec, uint32_t step, LocalParameters& moved);
  void CheckpointLocalWorkIfDue(LocalParameters& moved);
  absl::Status EncodeDelta(const v1::RoundSpec& spec, absl::Span<const float> delta);
  // Greedy soups (training_loop_soup.cc).
  absl::StatusOr<v1::HeldOutScore> ScoreHeldOut();
  absl::Status TakeTrialChunk(const v1::ChunkHeader& header, const Payload& payload);
  absl::Status OnTrial(const v1::Trial& trial);
  absl::StatusOr<v1::HeldOutScore> ScoreAverage(const std::vector<Bytes>& chunks);
  // Mask rounds (training_loop_scores.cc).
  absl::Status ContributeScores(const v1::RoundSpec& spec);
  absl::StatusOr<std::vector<float>> FisherScores(const v1::RoundSpec& spec);
  void SetProgress(uint64_t round, uint64_t done, uint64_t total, double loss = 0);
  void ClearProgress();
  absl::Status Abstain(const std::string& reason);
  void EncodeBlock(const v1::RoundSpec& spec, uint32_t block);
  absl::Status AfterRound(const v1::RoundClosed& closed);
  absl::Status Evaluate(const v1::RoundSpec& spec);
  bool WaitOrLeft(absl::Duration pause);

  const TrainingOptions options_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<FlatParameters> flat_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Method> method_;
  std::unique_ptr<BatchStream> batches_;
  std::optional<CheckpointFolder> checkpoints_;
  std::unique_ptr<CheckpointSaver> saver_;
  uint64_t first_position_ = 0;  // batches used before this process
  bool resumed_ = false;         // from a checkpoint
  bool said_ = false;            // how it starts
  bool torn_ = false;            // a step failed half-way: the method's state is of no round
  // The round of local steps that it is amid. Its values are what the steps have made while the
  // parameters in memory are the common ones, and the other way round while steps are being done.
  std::optional<KeptLocalWork> local_;
  std::vector<Bytes> trial_;     // chunks of an average to be scored, as far as they are here
  // Kept until its round is closed: a stream that breaks before is given the same bytes again.
  OutgoingContribution contribution_;
  absl::Status encode_error_;  // of the gradient callback, which cannot return one
  bool live_ = false;          // the round that has begun is the open one
  bool ahead_ = false;         // the open round was one that this replica has already
  bool stopped_ = false;
  uint64_t nonfinite_ = 0;     // of the step at work
  uint64_t last_samples_ = 0;  // of the last step
  Backoff backoff_;

  mutable absl::Mutex mutex_;
  std::optional<v1::LocalProgress> progress_ ABSL_GUARDED_BY(mutex_);
  Leaving leaving_ ABSL_GUARDED_BY(mutex_) = Leaving::kNo;
  std::shared_ptr<ExchangeClient> client_ ABSL_GUARDED_BY(mutex_);
  ExchangeClient* stream_ = nullptr;  // client_'s, for Run's own thread
};

}  // namespace tally
