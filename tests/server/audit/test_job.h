// A job's folder as its run leaves it: base, ledger, snapshots, what workers reported.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/layout/chunk_grid.h"
#include "server/ledger/digest_log.h"
#include "server/ledger/fold.h"
#include "server/ledger/snapshot.h"
#include "server/ledger/writer.h"
#include "tests/server/ledger/real_rounds.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally::testing {

// Rounds of lion_step, which keeps state; every fourth is one of the buffers and belongs to the
// training round before it. Two workers report after every fifth round, a snapshot comes every tenth.
class TestJob {
 public:
  static constexpr uint64_t kRounds = 42;
  explicit TestJob(uint64_t rounds = kRounds, uint64_t segment_bytes = 20000) {
    EXPECT_THAT(WriteFileAtomically(folder_ / "layout.pb", layout_.ToProto().SerializeAsString()),
                IsOk());
    auto store = SnapshotStore::Open(folder_ / "snapshots", layout_);
    EXPECT_THAT(store, IsOk());
    EXPECT_THAT(store->Write(0, RandomFloats(layout_.size(), 1), {}, "{\"a\": 1}"), IsOk());
    fold_ = std::make_unique<Fold>(Fold::FromSnapshot(layout_, **store->Open(0)));
    writer_ = *LedgerWriter::Open(folder_ / "ledger", layout_.digest(),
                                  {.segment_bytes = segment_bytes});
    log_ = DigestLog::Open(path(), layout_, 0);
    for (uint64_t round = 1; round <= rounds; ++round) AddRound(round, *store);
  }

  std::string path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  const Layout& layout() const { return layout_; }
  LedgerWriter& writer() { return *writer_; }
  DigestLog& log() { return *log_; }
  const Fold& fold() const { return *fold_; }
  // After each round, from the base on.
  const std::vector<uint64_t>& digests() const { return digests_; }
  static uint64_t StepOf(uint64_t round) { return round - round / 4; }

  void AddRound(uint64_t number, const SnapshotStore& store) {
    const bool buffers = number % 4 == 0;
    TestRound round = buffers ? RealRound(layout_, number, "dense_mean", "assign")
                              : RealRound(layout_, number, "dense_mean", "lion_step");
    round.spec.set_step(StepOf(number));
    ASSERT_THAT(Append(*writer_, round), IsOk());
    ASSERT_THAT(fold_->AdvanceTo(writer_->reader(), number), IsOk());
    digests_.push_back(fold_->digest());
    if (number % 5 == 0) {
      for (const char* worker : {"ann", "bob"}) {
        log_->Append(number, worker, fold_->digest(), fold_->block_digests());
      }
    }
    if (number % 10 == 0) {
      ASSERT_THAT(fold_->WriteSnapshot(store), IsOk());
    }
  }

  // Of the file, relative to the folder; negative `at`: from the end.
  void Flip(const std::string& name, int64_t at) {
    std::string bytes = *ReadFile(folder_ / name);
    bytes[at < 0 ? bytes.size() + at : at] ^= 1;
    Overwrite(folder_ / name, bytes);
  }

 private:
  TestFolder folder_;
  const Layout layout_ = SmallLayout();
  std::unique_ptr<Fold> fold_;
  std::unique_ptr<LedgerWriter> writer_;
  std::unique_ptr<DigestLog> log_;
  std::vector<uint64_t> digests_ = {0};
};

}  // namespace tally::testing
