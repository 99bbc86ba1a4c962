// One round as a record of the ledger: made from and taken apart into its parts. format.h has the
// grammar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/reduction/reduction.h"
#include "proto/tally/v1/training.pb.h"
#include "server/ledger/format.h"

namespace tally {

// The record around the payloads, which are written from where they lie.
struct EncodedRecord {
  std::string front;  // head, spec, closed, entries
  std::string back;   // the record's digest
  uint64_t length = 0;
};

// INVALID_ARGUMENT if spec, closed and payloads are not of one round: number, chunk count, digest.
absl::StatusOr<EncodedRecord> EncodeRecord(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                                           absl::Span<const ByteSpan> aggregates, uint64_t synced);

struct ParsedRecord {
  v1::RoundSpec spec;
  v1::RoundClosed closed;
  std::vector<ByteSpan> aggregates;      // views of the record's bytes
  std::vector<uint64_t> chunk_digests;   // parallel to aggregates
  ByteSpan chunks;                       // entries and payloads as they lie in the record
};

// `bytes` is exactly the record. Every digest is checked. DATA_LOSS names the part and its offset
// in the record.
absl::StatusOr<ParsedRecord> ParseRecord(absl::string_view bytes);

// RoundClosed.digest of chunks with these digests in index order.
uint64_t DigestOfChunks(absl::Span<const uint64_t> chunk_digests);

}  // namespace tally
