// A JobRun with workers made of plain code: each takes frames with Next and keeps a replica by
// ApplyRound, as a real worker does.
#pragma once

#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "common/spec/defaults.h"
#include "common/update/apply_round.h"
#include "common/update/history.h"
#include "common/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "server/ledger/reader.h"
#include "server/round/job_run.h"
#include "tests/common/base/temp_folder.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {

// Stands still until told; read from the fold's thread too.
class TestClock final : public Clock {
 public:
  absl::Duration Steady() const override { return absl::Milliseconds(milliseconds_.load()); }
  absl::Time Wall() const override { return absl::UnixEpoch() + Steady(); }
  void Advance(absl::Duration step) { milliseconds_ += absl::ToInt64Milliseconds(step); }

 private:
  std::atomic<int64_t> milliseconds_{1'000'000};
};

class RecordingObserver final : public JobObserver {
 public:
  void OnState(v1::JobState state, const std::string& reason) override {
    absl::MutexLock lock(&mutex_);
    state_ = state;
    reason_ = reason;
  }
  void OnEvent(const std::string&, const std::string& worker, const std::string& text) override {
    absl::MutexLock lock(&mutex_);
    events_ += worker + ": " + text + "\n";
  }
  void OnProgress(const std::function<void(v1::JobStatus&)>& change) override {
    absl::MutexLock lock(&mutex_);
    change(status_);
  }
  void OnRoundClosed(absl::Duration, uint64_t up, uint64_t down) override {
    absl::MutexLock lock(&mutex_);
    bytes_up_ += up;
    bytes_down_ += down;
  }
  void OnWorkers(const std::vector<std::string>& workers) override {
    absl::MutexLock lock(&mutex_);
    workers_ = workers;
  }
  void OnRefused(const std::string& kind) override {
    absl::MutexLock lock(&mutex_);
    ++refused_[kind];
  }

  // Waits for what the fold's thread brings about.
  bool WaitFor(v1::JobState state) {
    return WaitUntil([this, state] { return state_ == state; });
  }
  bool WaitForDigestOf(uint64_t round) {
    return WaitUntil([this, round] { return status_.parameters_digest_round() >= round; });
  }
  bool WaitForEvent(const std::string& text) {
    return WaitUntil([this, &text] { return events_.find(text) != std::string::npos; });
  }
  v1::JobState state() const { return Locked(state_); }
  std::string reason() const { return Locked(reason_); }
  std::string events() const { return Locked(events_); }
  v1::JobStatus status() const { return Locked(status_); }
  uint64_t bytes_up() const { return Locked(bytes_up_); }
  std::vector<std::string> workers() const { return Locked(workers_); }
  int refused(const std::string& kind) const {
    absl::MutexLock lock(&mutex_);
    const auto found = refused_.find(kind);
    return found == refused_.end() ? 0 : found->second;
  }

 private:
  template <typename Condition>
  bool WaitUntil(const Condition& condition) {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(60));
  }
  template <typename T>
  T Locked(const T& value) const {
    absl::MutexLock lock(&mutex_);
    return value;
  }

  mutable absl::Mutex mutex_;
  v1::JobState state_ = v1::WAITING;
  std::string reason_;
  std::string events_;
  v1::JobStatus status_;
  uint64_t bytes_up_ = 0;
  uint64_t bytes_down_ = 0;
  std::vector<std::string> workers_;
  std::map<std::string, int> refused_;
};

// Five chunks: 3 of the first block, 2 of the second.
inline Layout FiveChunks() {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.weight", {300});
  builder.AddBlock("b").AddTensor("b.weight", {200});
  return *builder.Build();
}

class TestWorker {
 public:
  TestWorker(std::string name, uint32_t index, Layout layout = FiveChunks())
      : name_(std::move(name)), index_(index), layout_(std::move(layout)) {}

  absl::Status Attach(const std::shared_ptr<JobRun>& run) {
    v1::Attach attach;
    attach.set_job_id("job");
    attach.set_worker(name_);
    attach.set_layout_digest(layout_.digest());
    *attach.mutable_layout() = layout_.ToProto();
    attach.set_has_parameters(round_.has_value());
    attach.set_round(round_.value_or(0));
    attach.set_history(history_);
    if (holds_rounds && !held_.empty()) attach.set_first_held(held_.begin()->first);
    return AttachWith(run, attach);
  }
  absl::Status AttachWith(const std::shared_ptr<JobRun>& run, const v1::Attach& attach) {
    TALLY_ASSIGN_OR_RETURN(attachment_, run->Attach(attach, std::make_shared<Link>()));
    run_ = run;
    finish_.reset();
    open_.reset();
    return absl::OkStatus();
  }
  void Leave() {
    if (run_ != nullptr) run_->Detach(attachment_);
    run_.reset();
    open_.reset();
  }
  void ForgetParameters() { round_.reset(); }
  void SpoilParameters() { parameters_[0] += 1; }

  // Takes what is there. True if there was anything.
  bool Drain() {
    bool any = false;
    while (run_ != nullptr && !finish_.has_value()) {
      Outgoing next = run_->Next(attachment_);
      if (!next.frame.has_value() && !next.finish.has_value()) break;
      any = true;
      if (next.frame.has_value()) Take(*next.frame);
      finish_ = next.finish;
    }
    if (finish_.has_value() && run_ != nullptr) {
      run_->Detach(attachment_);
      run_ = nullptr;
    }
    return any;
  }

  absl::Status Send(const v1::WorkerFrame& frame, const Bytes& payload = {}) {
    Payload slices;
    if (!payload.empty()) slices = Payload({OwnedSlice(payload)});
    return run_->OnFrame(attachment_, frame, slices, 100);
  }
  // Of the open round, unless told otherwise.
  v1::WorkerFrame ChunkFrame(uint32_t index, const Bytes& payload, uint64_t round = 0) const {
    v1::WorkerFrame frame;
    frame.mutable_chunk()->set_kind(v1::ROUND);
    frame.mutable_chunk()->set_round(round != 0 ? round : open_->round());
    frame.mutable_chunk()->set_index(index);
    frame.mutable_chunk()->set_digest(Digest64(payload.data(), payload.size()));
    return frame;
  }
  // The same for the same worker, round and chunk.
  Bytes PayloadOf(uint32_t index) const {
    const Chunk chunk = GridOf(*open_)[index];
    std::vector<float> values(chunk.count);
    const uint64_t key = StreamKey(salt, index_, open_->round() * 1000 + index,
                                   RandomPurpose::kAugment);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int64_t>(RandomWord(key, i)) * 0x1p-63);
    }
    return (*FindReduction(open_->reduction()))->Pack({.first_lane = chunk.first_lane}, values, key);
  }
  void SendChunks(uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      const Bytes payload = PayloadOf(i);
      EXPECT_THAT(Send(ChunkFrame(i, payload), payload), IsOk());
    }
  }
  v1::WorkerFrame EndFrame() const {
    v1::WorkerFrame frame;
    const uint32_t chunks = GridOf(*open_).size();
    Digester digester;
    for (uint32_t i = 0; i < chunks; ++i) {
      const Bytes payload = PayloadOf(i);
      digester.AddUint64(Digest64(payload.data(), payload.size()));
    }
    frame.mutable_end()->set_round(open_->round());
    frame.mutable_end()->set_chunks(chunks);
    frame.mutable_end()->set_digest(digester.Finish());
    frame.mutable_end()->set_samples(8);
    frame.mutable_end()->set_loss_sum(4);
    return frame;
  }
  void SendEnd() { EXPECT_THAT(Send(EndFrame()), IsOk()); }
  void Contribute() {
    SendChunks(0, GridOf(*open_).size());
    SendEnd();
  }
  void Abstain(const std::string& why) {
    v1::WorkerFrame frame;
    frame.mutable_end()->set_round(open_->round());
    frame.mutable_end()->set_abstain(why);
    EXPECT_THAT(Send(frame), IsOk());
  }

  absl::Status SendBaseBegin() {
    v1::WorkerFrame frame;
    *frame.mutable_base_begin()->mutable_layout() = layout_.ToProto();
    frame.mutable_base_begin()->set_config_json("{}");
    return Send(frame);
  }
  // All parameters 1, 2, 3, ... hundredths.
  void SendBase() {
    ASSERT_THAT(SendBaseBegin(), IsOk());
    parameters_.resize(layout_.size());
    state_.assign(layout_.size(), 0);
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i] = 0.01F * static_cast<float>(i);
    round_ = 0;
    history_ = 0;
    const ChunkGrid grid = DenseGrid(layout_);
    Digester digester;
    for (uint32_t i = 0; i < grid.size(); ++i) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(&parameters_[grid[i].first]);
      const Bytes payload(bytes, bytes + grid[i].count * sizeof(float));
      v1::WorkerFrame frame = ChunkFrame(i, payload, 1);
      frame.mutable_chunk()->set_kind(v1::PARAMETERS);
      digester.AddUint64(frame.chunk().digest());
      ASSERT_THAT(Send(frame, payload), IsOk());
    }
    v1::WorkerFrame end;
    end.mutable_base_end()->set_chunks(grid.size());
    end.mutable_base_end()->set_digest(digester.Finish());
    ASSERT_THAT(Send(end), IsOk());
  }

  const std::string& name() const { return name_; }
  bool elected() const { return elected_; }
  bool in_round() const { return open_.has_value(); }
  uint64_t open_round() const { return open_.has_value() ? open_->round() : 0; }
  std::optional<uint64_t> round() const { return round_; }
  uint64_t digest() const { return ParametersDigest(layout_, parameters_); }
  int snapshots() const { return snapshots_; }
  int past_rounds() const { return past_rounds_; }
  const std::vector<std::string>& refusals() const { return refusals_; }
  const std::optional<v1::Stop>& stop() const { return stop_; }
  const std::optional<absl::Status>& finish() const { return finish_; }

  int handed_back() const { return handed_back_; }
  const absl::Status& hand_back_status() const { return hand_back_status_; }
  uint64_t history() const { return history_; }
  // A held round with other bytes than it had.
  void SpoilHeldRound(uint64_t round) { held_.at(round).aggregate[0][8] ^= 1; }

  uint64_t salt = 0;      // other contributions with another one
  bool holds_rounds = true;
  bool hangs_in_hand_back = false;
  bool reports = true;    // digests and evaluations when asked for

 private:
  struct Link final : WorkerLink {
    void Wake() override {}  // tests look by themselves
  };

  ChunkGrid GridOf(const v1::RoundSpec& spec) const { return *GridForRound(layout_, spec); }

  void Take(const grpc::ByteBuffer& buffer) {
    v1::ServerFrame frame;
    const auto payload = DecodeFrame(buffer, &frame);
    ASSERT_THAT(payload, IsOk());
    switch (frame.body_case()) {
      case v1::ServerFrame::kAttached:
        elected_ = frame.attached().send_base();
        break;
      case v1::ServerFrame::kSnapshot:
        ++snapshots_;
        parameters_.assign(layout_.size(), 0);
        state_.assign(layout_.size(), 0);
        history_ = frame.snapshot().history();
        break;
      case v1::ServerFrame::kSnapshotEnd:
        EXPECT_EQ(digest(), frame.snapshot_end().parameters_digest());
        round_ = frame.snapshot_end().round();
        held_.clear();
        break;
      case v1::ServerFrame::kHandBack:
        HandBack(frame.hand_back());
        break;
      case v1::ServerFrame::kPastRound:
        ++past_rounds_;
        Begin(frame.past_round());
        TakeWhole(payload->ToBytes());
        break;
      case v1::ServerFrame::kRound:
        Begin(frame.round());
        open_ = frame.round();
        break;
      case v1::ServerFrame::kChunk:
        TakeChunk(frame.chunk(), *payload);
        break;
      case v1::ServerFrame::kClosed:
        Close(frame.closed());
        break;
      case v1::ServerFrame::kRefused:
        refusals_.push_back(frame.refused().reason());
        break;
      case v1::ServerFrame::kStop:
        stop_ = frame.stop();
        break;
      default:
        ADD_FAILURE() << frame.ShortDebugString();
    }
  }
  void Begin(const v1::RoundSpec& spec) {
    EXPECT_FALSE(stop_.has_value()) << "a round after the stop";
    ASSERT_EQ(spec.round(), round_.value_or(99999) + 1) << name_;
    folding_ = spec;
    aggregate_.assign(GridOf(spec).size(), {});
  }
  // The chunks of a past round, if they came with it: size and digest of each, then all payloads.
  void TakeWhole(const Bytes& chunks) {
    const size_t count = aggregate_.size();
    size_t offset = count * 16;
    for (size_t i = 0; i < count && !chunks.empty(); ++i) {
      uint64_t entry[2];
      ASSERT_LE(offset, chunks.size());
      std::memcpy(entry, chunks.data() + i * 16, sizeof(entry));
      ASSERT_LE(offset + entry[0], chunks.size());
      aggregate_[i].assign(chunks.begin() + static_cast<std::ptrdiff_t>(offset),
                           chunks.begin() + static_cast<std::ptrdiff_t>(offset + entry[0]));
      EXPECT_EQ(Digest64(aggregate_[i].data(), entry[0]), entry[1]);
      offset += entry[0];
    }
  }
  void TakeChunk(const v1::ChunkHeader& header, const Payload& payload) {
    EXPECT_EQ(payload.Digest(), header.digest());
    if (header.kind() == v1::PARAMETERS) {
      const Chunk chunk = DenseGrid(layout_)[header.index()];
      payload.CopyTo(absl::MakeSpan(
          reinterpret_cast<unsigned char*>(&parameters_[chunk.first]), payload.size()));
      return;
    }
    ASSERT_EQ(header.round(), folding_.round());
    EXPECT_TRUE(aggregate_[header.index()].empty()) << "a chunk twice";
    aggregate_[header.index()] = payload.ToBytes();
  }
  void Close(const v1::RoundClosed& closed) {
    ASSERT_EQ(closed.round(), folding_.round()) << name_;
    const std::vector<ByteSpan> views(aggregate_.begin(), aggregate_.end());
    ASSERT_THAT(ApplyRound(layout_, folding_, views, absl::MakeSpan(parameters_),
                           {absl::MakeSpan(state_)}),
                IsOk());
    round_ = closed.round();
    history_ = RoundHistory(history_, closed);
    EXPECT_EQ(closed.history(), history_);
    held_[closed.round()] = {folding_, closed, aggregate_};
    const bool live = open_.has_value() && open_->round() == closed.round();
    open_.reset();
    if (live && reports) Report();
  }
  void HandBack(const v1::HandBack& asked) {
    for (uint64_t round = asked.first(); round <= asked.last(); ++round) {
      if (hangs_in_hand_back) return;
      const HeldRound& held = held_.at(round);
      v1::WorkerFrame frame;
      *frame.mutable_past_round() = held.spec;
      hand_back_status_.Update(Send(frame));
      for (uint32_t i = 0; i < held.aggregate.size(); ++i) {
        hand_back_status_.Update(Send(ChunkFrame(i, held.aggregate[i], round), held.aggregate[i]));
      }
      *frame.mutable_closed() = held.closed;
      hand_back_status_.Update(Send(frame));
      ++handed_back_;
    }
  }
  void Report() {
    v1::WorkerFrame frame;
    if (folding_.compare_digest()) {
      frame.mutable_parameters()->set_round(folding_.round());
      frame.mutable_parameters()->set_digest(digest());
      const std::vector<uint64_t> blocks = BlockDigests(layout_, parameters_);
      *frame.mutable_parameters()->mutable_blocks() = {blocks.begin(), blocks.end()};
      EXPECT_THAT(Send(frame), IsOk());
    }
    if (folding_.evaluate()) {
      frame.mutable_evaluation()->set_round(folding_.round());
      frame.mutable_evaluation()->set_count(10);
      frame.mutable_evaluation()->set_correct(7);
      EXPECT_THAT(Send(frame), IsOk());
    }
  }

  const std::string name_;
  const uint32_t index_;
  const Layout layout_;
  std::shared_ptr<JobRun> run_;
  std::shared_ptr<Attachment> attachment_;
  bool elected_ = false;
  std::vector<float> parameters_;
  std::vector<float> state_;  // of rules with one slot
  std::optional<uint64_t> round_;  // of parameters_
  v1::RoundSpec folding_;
  std::vector<Bytes> aggregate_;
  std::optional<v1::RoundSpec> open_;  // waits for this worker's contribution
  struct HeldRound {
    v1::RoundSpec spec;
    v1::RoundClosed closed;
    std::vector<Bytes> aggregate;
  };
  std::map<uint64_t, HeldRound> held_;
  uint64_t history_ = 0;  // of round_
  int handed_back_ = 0;
  absl::Status hand_back_status_;
  int snapshots_ = 0;
  int past_rounds_ = 0;
  std::vector<std::string> refusals_;
  std::optional<v1::Stop> stop_;
  std::optional<absl::Status> finish_;
};

class JobRunTest : public ::testing::Test {
 protected:
  JobRunTest() {
    spec_ = WithDefaults(ValidSpec());
    spec_.set_rounds(4);
    spec_.set_chunk_elements(128);
    spec_.set_digest_every(1);
    spec_.set_evaluate_every(0);
    spec_.set_snapshot_every(0);
    spec_.mutable_workers()->set_count(3);
    spec_.mutable_workers()->set_max(3);
    spec_.mutable_workers()->set_quorum(2);
    spec_.mutable_workers()->set_minimum(2);
    spec_.mutable_workers()->set_round_deadline_ms(10'000);
    spec_.mutable_workers()->set_pause_limit_ms(60'000);
  }
  JobRunOptions Options() {
    JobRunOptions options;
    options.job_id = "job";
    options.spec = spec_;
    options.folder = folder_.File("job");
    options.workers = {"a", "b", "c"};
    options.clock = &clock_;
    return options;
  }
  void Open() {
    // The fixture's own, which outlives every run.
    auto run = JobRun::Open(Options(), {std::shared_ptr<void>(), &observer_});
    ASSERT_THAT(run, IsOk());
    run_ = *std::move(run);
  }
  void Settle() {
    bool any = true;
    while (any) any = a_.Drain() | b_.Drain() | c_.Drain();
  }
  // All three attached, round 1 open.
  void StartJob() {
    Open();
    for (TestWorker* worker : {&a_, &b_, &c_}) ASSERT_THAT(worker->Attach(run_), IsOk());
    Settle();
    ASSERT_TRUE(a_.elected());
    a_.SendBase();
    Settle();
    ASSERT_EQ(a_.open_round(), 1);
    ASSERT_EQ(c_.open_round(), 1);
  }
  void PlayRound() {
    for (TestWorker* worker : {&a_, &b_, &c_}) worker->Contribute();
    Settle();
  }
  void FinishJob() {
    while (a_.in_round()) PlayRound();
    ASSERT_TRUE(observer_.WaitFor(v1::SUCCEEDED)) << observer_.events();
    Settle();
  }
  void ExpectEqualReplicas() {
    EXPECT_EQ(a_.round(), b_.round());
    EXPECT_EQ(a_.round(), c_.round());
    EXPECT_EQ(a_.digest(), b_.digest());
    EXPECT_EQ(a_.digest(), c_.digest());
  }

  std::vector<TestWorker*> All() { return {&a_, &b_, &c_}; }

  v1::JobSpec spec_;
  TempFolder folder_;
  TestClock clock_;
  RecordingObserver observer_;
  std::shared_ptr<JobRun> run_;
  TestWorker a_{"a", 0};
  TestWorker b_{"b", 1};
  TestWorker c_{"c", 2};
};

class RestartTest : public JobRunTest {
 protected:
  void Stop() {
    for (TestWorker* worker : All()) worker->Leave();
    run_.reset();
  }
  void Restart() {
    Stop();
    Open();
    for (TestWorker* worker : All()) ASSERT_THAT(worker->Attach(run_), IsOk());
    Settle();
  }
  // What a crash of the machine may leave: the records of these rounds, and a piece of the next one.
  void CutLedgerAfter(uint64_t round) {
    const auto reader = LedgerReader::Open(folder_.File("job/ledger"), FiveChunks().digest());
    ASSERT_THAT(reader, IsOk());
    ASSERT_GT(reader->last_round(), round);
    std::filesystem::resize_file(folder_.File("job/ledger/0000000001.seg"),
                                 kSegmentHeaderBytes + reader->BytesOf(1, round) + 30);
  }
};

// The same job without a fault.
class Uninterrupted : public JobRunTest {
 public:
  void TestBody() override {}
  uint64_t Digest() {
    StartJob();
    FinishJob();
    return a_.digest();
  }
};

}  // namespace tally::testing
