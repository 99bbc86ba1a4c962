// The bytes of a ledger: fixed-width little-endian integers; digests are Digest64 (XXH3, 64 bits).
// In prose with a whole example: docs/ledger-format.md.
//
//   ledger  := segment*                 files NNNNNNNNNN.seg, named by their first round, no gaps
//   segment := header record*
//   header  := "TALLYLG1" version(4) zero(4) layout_digest(8) first_round(8) digest(8)
//              digest: of the 32 bytes before it
//   record  := head spec closed entry* payload* digest(8)
//              digest: of head, spec, closed and entries; the payloads have theirs in the entries
//   head    := "RND1" chunks(4) length(8) round(8) synced(8) spec_bytes(4) closed_bytes(4) digest(8)
//              length: of the whole record, head and last digest included
//              synced: rounds up to this one were on the disk when this record was written
//              digest: of the 40 bytes before it
//   spec    := RoundSpec, closed := RoundClosed (proto/tally/v1/training.proto)
//   entry   := payload_bytes(8) payload_digest(8)             one a chunk, by index
//   payload := the aggregate of the chunk in its reduction's format, unaligned
//
// A round exists if and only if its record is whole and every digest in it is right.
//
// Example: round 1 of no chunks, spec = 08 01, nothing synced yet; closed = 08 01 19 and the digest
// of nothing. 69 bytes:
//   52 4e 44 31 | 00 00 00 00 | 45 00 00 00 00 00 00 00 | 01 00 00 00 00 00 00 00
//   00 00 00 00 00 00 00 00 | 02 00 00 00 | 0b 00 00 00 | digest of these 40
//   08 01 | 08 01 19 c2 94 d3 38 05 80 06 2d | digest of the 61 bytes so far
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tally {

inline constexpr char kSegmentMagic[] = "TALLYLG1";
inline constexpr char kRecordMagic[] = "RND1";
inline constexpr uint32_t kLedgerVersion = 1;
inline constexpr size_t kSegmentHeaderBytes = 40;
inline constexpr size_t kRecordHeadBytes = 48;
inline constexpr size_t kChunkEntryBytes = 16;
inline constexpr size_t kDigestBytes = 8;

struct SegmentHeader {
  uint64_t layout_digest = 0;
  uint64_t first_round = 0;
};

struct RecordHead {
  uint32_t chunks = 0;
  uint64_t length = 0;
  uint64_t round = 0;
  uint64_t synced = 0;
  uint32_t spec_bytes = 0;
  uint32_t closed_bytes = 0;
};

std::string EncodeSegmentHeader(const SegmentHeader& header);
// `bytes` begins with the header. FAILED_PRECONDITION for another version; DATA_LOSS naming the
// field: cut short, magic, digest.
absl::StatusOr<SegmentHeader> DecodeSegmentHeader(absl::string_view bytes);

std::string EncodeRecordHead(const RecordHead& head);
// `bytes` begins with the head. DATA_LOSS: cut short, magic, digest, or a length that cannot hold
// what the head announces. The rest of the record need not be there.
absl::StatusOr<RecordHead> DecodeRecordHead(absl::string_view bytes);

// "0000000001.seg".
std::string SegmentName(uint64_t first_round);
// The first round, or nothing for a name that is not a segment's.
std::optional<uint64_t> ParseSegmentName(absl::string_view name);

void PutUint32(uint32_t value, std::string* out);
void PutUint64(uint64_t value, std::string* out);
uint32_t GetUint32(const char* bytes);
uint64_t GetUint64(const char* bytes);

}  // namespace tally
