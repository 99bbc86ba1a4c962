// Reading rounds of a ledger, in any order, while the writer may be appending to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/index.h"

namespace tally {

// One round, with its bytes. Moving it leaves the spans valid.
struct LedgerRound {
  v1::RoundSpec spec;
  v1::RoundClosed closed;
  std::vector<ByteSpan> aggregates;     // by chunk index; views of `buffer`, unaligned
  std::vector<uint64_t> chunk_digests;  // Digest64 of each, checked
  ByteSpan chunks;                      // entries and payloads as they lie in `buffer`
  std::unique_ptr<char[]> buffer;       // the record as it lies in the segment
};

// Immutable; safe to use from several threads. LedgerWriter::reader() gives one that sees each
// round as soon as it is appended; Open() one of the rounds that are whole now.
class LedgerReader {
 public:
  explicit LedgerReader(std::shared_ptr<const LedgerIndex> index) : index_(std::move(index)) {}
  // Changes nothing on the disk; a torn tail is not seen. Errors: ScanLedger.
  static absl::StatusOr<LedgerReader> Open(const std::string& folder, uint64_t layout_digest);

  // NOT_FOUND before the first and after the last round; DATA_LOSS naming segment and offset.
  // Memory: the record, once.
  absl::StatusOr<LedgerRound> Read(uint64_t round) const;
  // Of the records of these rounds, as far as they are there.
  uint64_t BytesOf(uint64_t first, uint64_t last) const { return index_->BytesOf(first, last); }
  uint64_t first_round() const { return index_->first_round(); }
  // first_round() - 1 when there is none.
  uint64_t last_round() const { return index_->last_round(); }

 private:
  std::shared_ptr<const LedgerIndex> index_;
};

}  // namespace tally
