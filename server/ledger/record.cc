#include "server/ledger/record.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::Status CheckBelongTogether(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                                 absl::Span<const uint64_t> chunk_digests) {
  const std::string what = absl::StrCat("ledger: round ", spec.round(), ": closed: ");
  if (closed.round() != spec.round()) {
    return absl::InvalidArgumentError(absl::StrCat(what, "found round ", closed.round()));
  }
  if (closed.chunks() != chunk_digests.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, "expected ", chunk_digests.size(), " chunks, found ", closed.chunks()));
  }
  const uint64_t digest = DigestOfChunks(chunk_digests);
  if (closed.digest() != digest) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "expected the chunks' digest ", DigestToString(digest), ", found ",
                     DigestToString(closed.digest())));
  }
  return absl::OkStatus();
}

absl::Status Damaged(uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("at byte ", offset, " of the record: ", what));
}

absl::Status DigestMismatch(uint64_t offset, absl::string_view what, uint64_t expected,
                            uint64_t found) {
  return Damaged(offset, absl::StrCat(what, ": expected digest ", DigestToString(expected),
                                      ", found ", DigestToString(found)));
}

// The record's own digest covers everything but the payloads.
absl::Status CheckFrontDigest(absl::string_view bytes, uint64_t front_bytes) {
  const uint64_t at = bytes.size() - kDigestBytes;
  const uint64_t expected = GetUint64(bytes.data() + at);
  const uint64_t found = Digest64(bytes.substr(0, front_bytes));
  if (found != expected) return DigestMismatch(at, "record", expected, found);
  return absl::OkStatus();
}

// Takes the payloads off `bytes`, whose entries begin at `entries`.
absl::Status ParseChunks(absl::string_view bytes, uint32_t chunks, uint64_t entries,
                         ParsedRecord& record) {
  uint64_t offset = entries + uint64_t{chunks} * kChunkEntryBytes;
  const uint64_t end = bytes.size() - kDigestBytes;
  for (uint32_t i = 0; i < chunks; ++i) {
    const char* entry = bytes.data() + entries + uint64_t{i} * kChunkEntryBytes;
    const uint64_t size = GetUint64(entry);
    const uint64_t expected = GetUint64(entry + 8);
    if (size > end - offset) {
      return Damaged(offset, absl::StrCat("chunk ", i, ": ", size, " bytes announced, ",
                                          end - offset, " left"));
    }
    const absl::string_view payload = bytes.substr(offset, size);
    const uint64_t found = Digest64(payload);
    if (found != expected) {
      return DigestMismatch(offset, absl::StrCat("chunk ", i), expected, found);
    }
    record.aggregates.emplace_back(reinterpret_cast<const unsigned char*>(payload.data()), size);
    record.chunk_digests.push_back(found);
    offset += size;
  }
  if (offset != end) return Damaged(offset, absl::StrCat(end - offset, " bytes belong to no chunk"));
  record.chunks = {reinterpret_cast<const unsigned char*>(bytes.data()) + entries, end - entries};
  return absl::OkStatus();
}

absl::Status ParseMessage(absl::string_view bytes, uint64_t offset, absl::string_view what,
                          google::protobuf::MessageLite& message) {
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Damaged(offset, absl::StrCat(what, ": not a message of that type"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t DigestOfChunks(absl::Span<const uint64_t> chunk_digests) {
  Digester digester;
  for (const uint64_t digest : chunk_digests) digester.AddUint64(digest);
  return digester.Finish();
}

absl::StatusOr<EncodedRecord> EncodeRecord(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                                           absl::Span<const ByteSpan> aggregates,
                                           uint64_t synced) {
  std::string entries;
  std::vector<uint64_t> digests;
  uint64_t payload_bytes = 0;
  for (const ByteSpan payload : aggregates) {
    digests.push_back(Digest64(payload.data(), payload.size()));
    PutUint64(payload.size(), &entries);
    PutUint64(digests.back(), &entries);
    payload_bytes += payload.size();
  }
  TALLY_RETURN_IF_ERROR(CheckBelongTogether(spec, closed, digests));

  const std::string spec_bytes = spec.SerializeAsString();
  const std::string closed_bytes = closed.SerializeAsString();
  RecordHead head;
  head.chunks = static_cast<uint32_t>(aggregates.size());
  head.round = spec.round();
  head.synced = synced;
  head.spec_bytes = static_cast<uint32_t>(spec_bytes.size());
  head.closed_bytes = static_cast<uint32_t>(closed_bytes.size());
  head.length = kRecordHeadBytes + spec_bytes.size() + closed_bytes.size() + entries.size() +
                payload_bytes + kDigestBytes;

  EncodedRecord record;
  record.length = head.length;
  record.front = absl::StrCat(EncodeRecordHead(head), spec_bytes, closed_bytes, entries);
  PutUint64(Digest64(record.front), &record.back);
  return record;
}

absl::StatusOr<ParsedRecord> ParseRecord(absl::string_view bytes) {
  TALLY_ASSIGN_OR_RETURN(const RecordHead head, DecodeRecordHead(bytes));
  if (head.length != bytes.size()) {
    return Damaged(8, absl::StrCat("length: expected ", bytes.size(), ", found ", head.length));
  }
  const uint64_t spec_at = kRecordHeadBytes;
  const uint64_t closed_at = spec_at + head.spec_bytes;
  const uint64_t entries_at = closed_at + head.closed_bytes;
  TALLY_RETURN_IF_ERROR(
      CheckFrontDigest(bytes, entries_at + uint64_t{head.chunks} * kChunkEntryBytes));

  ParsedRecord record;
  TALLY_RETURN_IF_ERROR(
      ParseMessage(bytes.substr(spec_at, head.spec_bytes), spec_at, "RoundSpec", record.spec));
  TALLY_RETURN_IF_ERROR(ParseMessage(bytes.substr(closed_at, head.closed_bytes), closed_at,
                                     "RoundClosed", record.closed));
  TALLY_RETURN_IF_ERROR(ParseChunks(bytes, head.chunks, entries_at, record));
  if (record.spec.round() != head.round) {
    return Damaged(spec_at, absl::StrCat("RoundSpec: expected round ", head.round, ", found ",
                                         record.spec.round()));
  }
  const absl::Status together = CheckBelongTogether(record.spec, record.closed, record.chunk_digests);
  if (!together.ok()) return Damaged(closed_at, together.message());
  return record;
}

}  // namespace tally
