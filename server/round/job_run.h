// One job from the first worker's Attach to its end: members, rounds, ledger, fold.
//
// Thread-safe. Frames of one attachment must come in one after the other; everything else may be
// called from any thread. Nothing here waits for a worker: time passes through OnTimer.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/layout/layout.h"
#include "common/wire/frame.h"
#include "proto/tally/v1/job.pb.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/digest_log.h"
#include "server/ledger/keep.h"
#include "server/ledger/reader.h"
#include "server/ledger/snapshot.h"
#include "server/ledger/writer.h"
#include "server/round/attachment.h"
#include "server/round/close_policy.h"
#include "server/round/fold_thread.h"
#include "server/round/greedy_soup.h"
#include "server/round/job_observer.h"
#include "server/round/open_round.h"
#include "server/round/planner.h"
#include "server/round/reports.h"
#include "server/round/sync_thread.h"

namespace tally {

struct JobRunOptions {
  std::string job_id;
  v1::JobSpec spec;                  // has passed CheckJobSpec
  std::string folder;                // the job's own; made if absent
  std::vector<std::string> workers;  // names by index, "" for a vacant place
  bool held = false;                 // paused by a person; Unhold ends it
  std::string held_reason;           // that person's
  bool strict_durability = false;    // sync the ledger before a round is announced
  LedgerKeep keep = {};              // what of rounds and snapshots is kept
  const Clock* clock = &Clock::System();
};

class JobRun {
 public:
  // Takes up the job where its folder says it is.
  static absl::StatusOr<std::shared_ptr<JobRun>> Open(JobRunOptions options,
                                                      std::shared_ptr<JobObserver> observer);
  ~JobRun();

  // PERMISSION_DENIED for a worker that the job was not assigned; INVALID_ARGUMENT for a layout
  // that differs from the job's. A worker that is attached already is replaced.
  absl::StatusOr<std::shared_ptr<Attachment>> Attach(const v1::Attach& attach,
                                                     std::shared_ptr<WorkerLink> link);
  // A frame that came in on it; `wire_bytes` is its size with its header. An error ends the stream.
  absl::Status OnFrame(const std::shared_ptr<Attachment>& from, const v1::WorkerFrame& frame,
                       const Payload& payload, size_t wire_bytes);
  // The next frame to write on it. One caller at a time.
  Outgoing Next(const std::shared_ptr<Attachment>& to);
  // Its stream has ended, however.
  void Detach(const std::shared_ptr<Attachment>& gone);

  // The worker's lease has ended: its stream, if there is one, is closed.
  void Drop(const std::string& worker);

  // What the worker is at, by its heartbeat; without a round: nothing that it tells.
  void HearProgress(const std::string& worker, const v1::LocalProgress& progress);

  // To be called about ten times a second.
  void OnTimer();
  // Ends the run: CANCELLED, or FAILED because of a worker's word.
  void Cancel(const std::string& reason);
  void Fail(const std::string& reason);
  // A person's pause: the open round ends, and no other opens until Unhold. The pause limit does not
  // count meanwhile.
  void Hold(const std::string& reason);
  void Unhold();
  // The run has ended and told so; its members may be released.
  bool ended() const { return ended_; }  // takes no lock
  const std::string& job_id() const { return options_.job_id; }

  // -- places (job_run_places.cc); these take no lock that is held for long --
  // Names by index, "" for a vacant place.
  std::vector<std::string> workers() const;
  // Workers that AddWorker would take: vacant places, and those that the job may still grow by.
  uint32_t open_places() const;
  // Gives the worker a place, the first vacant one or a new one, and returns its index. OK also when
  // it has one. RESOURCE_EXHAUSTED without an open place, FAILED_PRECONDITION after the end.
  absl::StatusOr<uint32_t> AddWorker(const std::string& worker);
  // The worker's place becomes vacant, after the open round if it takes part in that.
  void RemoveWorker(const std::string& worker, const std::string& reason);

 private:
  // A round on its way into the ledger: all of its chunks are reduced.
  struct Commit {
    std::shared_ptr<OpenRound> round;
    v1::RoundClosed closed;
    LedgerWriter* writer;
    bool sync;
  };
  // A lost round while a worker hands it back.
  struct HandedRound {
    v1::RoundSpec spec;
    ChunkGrid grid;
    std::vector<Bytes> chunks;  // by index, empty until it is there
    std::vector<uint64_t> digests;
    absl::Duration since;
  };
  // A greedy soup while it is being made.
  struct Soup {
    std::vector<SoupCandidate> candidates;
    std::vector<SoupScore> trials;
    std::vector<uint32_t> members;  // of the average being scored
    std::set<uint32_t> scorers;     // workers on whose rows all averages are scored
    bool lost = false;              // a scorer is gone: the trials begin anew
    bool sending = false;           // a thread sends the average to the scorers
    bool sent = false;              // it has
    std::set<uint32_t> awaited;     // of them, whose scores are not here yet
    SoupScore sum;
    absl::Duration since;
  };
  // Done after the lock is released.
  struct Effects {
    std::vector<std::shared_ptr<WorkerLink>> wakes;
    std::vector<uint32_t> reduce;  // chunks of `round` that this thread is to reduce
    std::shared_ptr<OpenRound> round;
    std::vector<uint32_t> trial;  // workers whose average of `round` this thread is to send
    std::optional<Commit> commit;
    bool broadcast = false;  // chunks of an aggregate are on their way
    bool announced = false;  // a round's closing is
  };

  JobRun(JobRunOptions options, std::shared_ptr<JobObserver> observer);
  absl::Status OpenFolder();
  absl::Status AdoptLayout(const v1::LayoutProto& proto) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeUpCounts(const v1::JobStatus& before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<Snapshot>> LatestSnapshot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenLedger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeUpMask(const Snapshot& snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ResumeAfter(const LedgerRound& last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Members (job_run_members.cc).
  absl::StatusOr<uint32_t> IndexOf(const std::string& worker) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RoundClosed.history of that round, read from the disk; nothing if the ledger does not have it.
  std::optional<uint64_t> HistoryAt(uint64_t round) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status KeepLayout(const v1::Attach& attach) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishWorkers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartMember(Attachment& member, const v1::Attach& attach, std::optional<uint64_t> history,
                   Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the rounds that the worker has are the ledger's; tells people if not.
  bool HasLedgersRounds(const Attachment& member, const v1::Attach& attach,
                        std::optional<uint64_t> history) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From `round` on, or from a snapshot if the worker has no round or that is less to send.
  void StartCatchUp(Attachment& member, std::optional<uint64_t> round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SnapshotIsLess(uint64_t round) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::unique_ptr<SnapshotFrames>> OpenSnapshotFrames() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OpenSnapshotFor(const std::shared_ptr<Attachment>& member) ABSL_LOCKS_EXCLUDED(mutex_);
  void GoLive(Attachment& member, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttachment(Attachment& member, absl::Status status, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Attachment& member, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ElectIfNeeded(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsBehind(const Attachment& member) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Outgoing TakeFrame(Attachment& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadLedgerFor(const std::shared_ptr<Attachment>& member);
  LedgerReader LedgerOf() const;
  void PushLedgerRound(Attachment& member, std::shared_ptr<const LedgerRound> round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(Attachment& member, grpc::ByteBuffer frame, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Broadcast(const grpc::ByteBuffer& frame, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropSlowReaders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t LiveMembers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Places (job_run_places.cc).
  void PublishPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t MostPlaces() const;
  uint32_t TakenPlaces() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Vacate(uint32_t index, const std::string& reason, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void VacateLeaving(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Rounds that workers hand back (job_run_hand_back.cc).
  bool CanHandBack(const Attachment& member) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks the next member that is ahead, if none is at it; those that cannot help get a snapshot.
  void AskForLostRounds(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitsLostRounds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnHandedRound(Attachment& from, const v1::RoundSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnHandedChunk(Attachment& from, const v1::ChunkHeader& header,
                             const Payload& payload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnHandedClosed(Attachment& from, const v1::RoundClosed& closed, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckHandedClosed(const v1::RoundClosed& closed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHandBack(Attachment& from, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnforceHandBackLimit(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The base model (job_run_base.cc).
  absl::Status OnBaseBegin(Attachment& from, const v1::BaseBegin& begin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnBaseChunk(Attachment& from, const v1::ChunkHeader& header, const Payload& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnBaseEnd(Attachment& from, const v1::BaseEnd& end, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Rounds (job_run_rounds.cc).
  void CountUp(const Attachment& from, size_t wire_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnControlFrame(Attachment& from, const v1::WorkerFrame& frame,
                              const Payload& payload, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnContributionChunk(Attachment& from, const v1::ChunkHeader& header,
                                   const Payload& payload, size_t wire_bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeChunk(Attachment& from, const v1::ChunkHeader& header, const Payload& payload,
                         const std::shared_ptr<OpenRound>& round, Effects& effects)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status DiskFailed(const Attachment& from, const absl::Status& status);
  static absl::Status CheckChunk(const OpenRound& round, const v1::ChunkHeader& header,
                                 const Bytes& bytes);
  absl::Status OnContributionEnd(Attachment& from, const v1::ContributionEnd& end,
                                 size_t wire_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  bool MayEnd(Attachment& from, const v1::ContributionEnd& end, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountContribution(Attachment& from, const v1::ContributionEnd& end, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefuseLate(Attachment& from, uint64_t round, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveOut(Attachment& from, const std::string& kind, const std::string& reason,
                Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakesPart(const Attachment& from, uint64_t round) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resume() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenNextRound(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<OpenRound>> NewRound(const v1::RoundSpec& spec) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendRound(Attachment& member, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayOpenFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitsReturning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveStaged(uint64_t before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The greedy soup (job_run_soup.cc).
  void BeginSoup(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ContinueSoup(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendTrial(const std::vector<uint32_t>& members, Effects& effects)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnTrialScore(const Attachment& from, const v1::TrialScore& scored, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RestartSoup(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendToScorers(const grpc::ByteBuffer& frame, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseScorer(uint32_t worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndTrial(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnforceSoup(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseForContributions(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A mask round's aggregate is in the ledger: later rounds are over its mask.
  absl::Status AdoptMask(const v1::RoundSpec& spec, absl::Span<const ByteSpan> aggregate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The round is in the ledger, however it came there.
  void RoundEntered(const v1::RoundSpec& spec, const v1::RoundClosed& closed, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Advance(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AwaitedNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RoundProgress ProgressNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartCommit(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status WriteToLedger(const Commit& commit);
  void EndCommit(const Commit& commit, const absl::Status& written, Effects& effects)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What the open round is and who has sent how much, if that has changed since it was last told.
  void PublishOpenRound() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordProgress(const v1::RoundClosed& closed, absl::Duration took)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Effects effects) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReduceClaimed(Effects& effects) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReduceMask(const std::shared_ptr<OpenRound>& round, Effects& effects)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeAggregate(uint32_t index, AggregateChunk chunk, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Evaluations, digests and the end (job_run_reports.cc).
  void OnEvaluation(const Attachment& from, const v1::Evaluation& evaluation, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDigest(const Attachment& from, const v1::ParametersDigest& digest, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFolded(const FoldResult& result);
  void ForgetOldRounds() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSnapshot(const FoldResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteResultAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resynchronise(uint32_t worker, const v1::ParametersDigest& found,
                     const v1::ParametersDigest& expected, Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string DifferingBlocks(const v1::ParametersDigest& found,
                              const v1::ParametersDigest& expected) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompareDigests(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishEvaluations() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpectReports(const v1::RoundSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfDone(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool IsTerminalState() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == v1::SUCCEEDED || state_ == v1::FAILED || state_ == v1::CANCELLED;
  }
  void SetState(v1::JobState state, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(v1::JobState state, const std::string& reason, Effects& effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string HeldReason() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnforcePauseLimit(Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobRunOptions options_;
  const std::shared_ptr<JobObserver> observer_;

  std::atomic<bool> ended_{false};
  mutable absl::Mutex mutex_;
  v1::JobState state_ ABSL_GUARDED_BY(mutex_) = v1::WAITING;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  absl::Duration state_since_ ABSL_GUARDED_BY(mutex_);
  std::optional<Layout> layout_ ABSL_GUARDED_BY(mutex_);
  std::optional<RoundPlanner> planner_ ABSL_GUARDED_BY(mutex_);
  std::optional<SnapshotStore> snapshots_ ABSL_GUARDED_BY(mutex_);
  uint64_t newest_snapshot_ ABSL_GUARDED_BY(mutex_) = 0;  // its round
  std::unique_ptr<LedgerWriter> writer_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FoldThread> fold_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SyncThread> sync_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> held_ ABSL_GUARDED_BY(mutex_);  // a person's reason

  // Names by index, "" for a vacant place; a copy for who must not wait for mutex_.
  std::vector<std::string> places_ ABSL_GUARDED_BY(mutex_);
  mutable absl::Mutex published_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::vector<std::string> published_places_ ABSL_GUARDED_BY(published_mutex_);
  std::map<uint32_t, std::string> leaving_ ABSL_GUARDED_BY(mutex_);  // after the open round, and why
  // Voters of the last round before a restart that are not back yet: they may hold what the disk lost.
  std::set<uint32_t> returning_ ABSL_GUARDED_BY(mutex_);
  absl::Duration opened_at_ ABSL_GUARDED_BY(mutex_);

  std::map<std::string, std::shared_ptr<Attachment>> members_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::JobWorker> stats_ ABSL_GUARDED_BY(mutex_);  // by index
  // Workers whose parameters differ from the ledger's: they get a snapshot when they come back.
  std::vector<bool> resynchronise_ ABSL_GUARDED_BY(mutex_);

  // The base while its elected sender sends it.
  std::string elected_ ABSL_GUARDED_BY(mutex_);
  std::string base_config_json_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> base_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> base_digests_ ABSL_GUARDED_BY(mutex_);

  std::optional<Soup> soup_ ABSL_GUARDED_BY(mutex_);  // of round_, which is closing
  std::shared_ptr<OpenRound> round_ ABSL_GUARDED_BY(mutex_);
  absl::Duration deadline_from_ ABSL_GUARDED_BY(mutex_);  // of round_
  std::string last_left_out_ ABSL_GUARDED_BY(mutex_);     // whose contribution, and why
  bool lacked_workers_ ABSL_GUARDED_BY(mutex_) = false;   // round_ has paused for them
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no contribution to round_ counts any more
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;  // a thread writes round_ to the ledger
  std::string commit_error_ ABSL_GUARDED_BY(mutex_);  // why a closed round is not in the ledger yet
  std::optional<v1::RoundSpec> last_spec_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_history_ ABSL_GUARDED_BY(mutex_) = 0;  // RoundClosed.history of the last round
  MaskPointer mask_ ABSL_GUARDED_BY(mutex_);  // in force; null if there is none
  std::optional<HandedRound> handed_ ABSL_GUARDED_BY(mutex_);
  bool all_rounds_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::string published_round_ ABSL_GUARDED_BY(mutex_);  // what PublishOpenRound has told last
  // By worker; of its own lock, so that no heartbeat waits for the run's.
  mutable absl::Mutex progress_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::map<std::string, v1::LocalProgress> progress_ ABSL_GUARDED_BY(progress_mutex_);
  std::deque<absl::Duration> durations_ ABSL_GUARDED_BY(mutex_);
  uint64_t samples_ ABSL_GUARDED_BY(mutex_) = 0;

  ReportTable<v1::Evaluation> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> evaluation_steps_ ABSL_GUARDED_BY(mutex_);  // by round
  ReportTable<v1::ParametersDigest> digests_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::ParametersDigest> true_digests_ ABSL_GUARDED_BY(mutex_);  // by round
  std::unique_ptr<DigestLog> digest_log_ ABSL_GUARDED_BY(mutex_);
  uint64_t mismatches_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<FoldResult> result_ ABSL_GUARDED_BY(mutex_);  // the last snapshot
  absl::Duration result_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally
