// A job's ledger read from its files alone, beside the writer if there is one. Unlike LedgerReader it
// is there to find out what is wrong: damage is told of, and what comes before it can be read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/layout/layout.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/index.h"
#include "server/ledger/reader.h"

namespace tally {

// The first round that it concerns, and words that name segment and offset.
struct LedgerFault {
  uint64_t round = 0;
  std::string problem;
};

// Immutable. The rounds are those that are there when it is opened.
class LedgerView {
 public:
  // Reads every record but its payloads. A fault is none of the errors: those are of the machine.
  static absl::StatusOr<LedgerView> Open(const std::string& folder, uint64_t layout_digest);

  // Of the rounds up to last_round(), whose records are in order as far as their heads say.
  LedgerReader reader() const { return LedgerReader(index_); }
  uint64_t first_round() const { return index_->first_round(); }
  // first_round() - 1 when there is none. Rounds behind a gap or an unreadable head do not count.
  uint64_t last_round() const { return index_->last_round(); }
  // Ascending: rounds that do not continue the history of the one before and, at last_round() + 1,
  // what ends the view before the ledger's end.
  const std::vector<LedgerFault>& faults() const { return faults_; }

  // Without the payloads. Errors: LedgerReader::Read.
  absl::StatusOr<v1::RoundSpec> SpecOf(uint64_t round) const;
  // Blocks with an aggregate chunk whose payload is damaged, ascending. Empty if there is none, or
  // if the record is damaged elsewhere, too, so that nothing can be told.
  std::vector<uint32_t> DamagedBlocks(const Layout& layout, uint64_t round) const;

 private:
  explicit LedgerView(std::shared_ptr<LedgerIndex> index) : index_(std::move(index)) {}
  // False: the view ends here.
  bool AddSegment(const std::string& path, absl::string_view bytes, uint64_t layout_digest,
                  uint64_t first_round, bool last);
  bool AddRecord(const std::string& path, absl::string_view bytes, uint64_t offset, bool last);
  void CheckHistory(const std::string& where, absl::string_view record);
  void AddFault(uint64_t round, absl::string_view where, absl::string_view problem);

  std::shared_ptr<LedgerIndex> index_;
  std::vector<LedgerFault> faults_;
  uint64_t history_ = 0;         // after the last round
  bool history_known_ = false;
};

}  // namespace tally
