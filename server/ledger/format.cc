#include "server/ledger/format.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/digest.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr size_t kNameDigits = 10;
constexpr char kNameSuffix[] = ".seg";
constexpr char kHeaderName[] = "segment header";
constexpr char kHeadName[] = "record head";

void PutDigest(std::string* out) { PutUint64(Digest64(*out), out); }

absl::Status CheckStart(absl::string_view bytes, size_t size, absl::string_view magic,
                        absl::string_view what) {
  if (bytes.size() < size) {
    return absl::DataLossError(
        absl::StrCat(what, ": expected ", size, " bytes, found ", bytes.size()));
  }
  if (!absl::StartsWith(bytes, magic)) {
    return absl::DataLossError(absl::StrCat(what, ": magic is not ", magic));
  }
  return absl::OkStatus();
}

// The digest is the last of `size` bytes and of those before it.
absl::Status CheckDigest(absl::string_view bytes, size_t size, absl::string_view what) {
  const uint64_t expected = GetUint64(bytes.data() + size - kDigestBytes);
  const uint64_t found = Digest64(bytes.substr(0, size - kDigestBytes));
  if (found != expected) {
    return absl::DataLossError(absl::StrCat(what, ": expected digest ", DigestToString(expected),
                                            ", found ", DigestToString(found)));
  }
  return absl::OkStatus();
}

// What the head's counts add up to, without the payloads.
uint64_t LengthWithoutPayloads(const RecordHead& head) {
  return kRecordHeadBytes + uint64_t{head.spec_bytes} + head.closed_bytes +
         kChunkEntryBytes * uint64_t{head.chunks} + kDigestBytes;
}

}  // namespace

void PutUint32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

void PutUint64(uint64_t value, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t GetUint32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

uint64_t GetUint64(const char* bytes) {
  return uint64_t{GetUint32(bytes + 4)} << 32 | GetUint32(bytes);
}

std::string EncodeSegmentHeader(const SegmentHeader& header) {
  std::string out = kSegmentMagic;
  PutUint32(kLedgerVersion, &out);
  PutUint32(0, &out);
  PutUint64(header.layout_digest, &out);
  PutUint64(header.first_round, &out);
  PutDigest(&out);
  return out;
}

absl::StatusOr<SegmentHeader> DecodeSegmentHeader(absl::string_view bytes) {
  TALLY_RETURN_IF_ERROR(CheckStart(bytes, kSegmentHeaderBytes, kSegmentMagic, kHeaderName));
  // Before the digest, which another version may keep elsewhere.
  const uint32_t version = GetUint32(bytes.data() + 8);
  if (version != kLedgerVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        kHeaderName, ": expected version ", kLedgerVersion, ", found ", version));
  }
  TALLY_RETURN_IF_ERROR(CheckDigest(bytes, kSegmentHeaderBytes, kHeaderName));
  return SegmentHeader{GetUint64(bytes.data() + 16), GetUint64(bytes.data() + 24)};
}

std::string EncodeRecordHead(const RecordHead& head) {
  std::string out = kRecordMagic;
  PutUint32(head.chunks, &out);
  PutUint64(head.length, &out);
  PutUint64(head.round, &out);
  PutUint64(head.synced, &out);
  PutUint32(head.spec_bytes, &out);
  PutUint32(head.closed_bytes, &out);
  PutDigest(&out);
  return out;
}

absl::StatusOr<RecordHead> DecodeRecordHead(absl::string_view bytes) {
  TALLY_RETURN_IF_ERROR(CheckStart(bytes, kRecordHeadBytes, kRecordMagic, kHeadName));
  TALLY_RETURN_IF_ERROR(CheckDigest(bytes, kRecordHeadBytes, kHeadName));
  RecordHead head;
  head.chunks = GetUint32(bytes.data() + 4);
  head.length = GetUint64(bytes.data() + 8);
  head.round = GetUint64(bytes.data() + 16);
  head.synced = GetUint64(bytes.data() + 24);
  head.spec_bytes = GetUint32(bytes.data() + 32);
  head.closed_bytes = GetUint32(bytes.data() + 36);
  if (head.length < LengthWithoutPayloads(head)) {
    return absl::DataLossError(absl::StrCat(kHeadName, ": expected a length of ",
                                            LengthWithoutPayloads(head), " or more, found ",
                                            head.length));
  }
  return head;
}

std::string SegmentName(uint64_t first_round) {
  return absl::StrFormat("%010d%s", first_round, kNameSuffix);
}

std::optional<uint64_t> ParseSegmentName(absl::string_view name) {
  uint64_t first_round = 0;
  if (!absl::ConsumeSuffix(&name, kNameSuffix) || name.size() < kNameDigits ||
      !absl::SimpleAtoi(name, &first_round) ||
      SegmentName(first_round) != absl::StrCat(name, kNameSuffix)) {
    return std::nullopt;
  }
  return first_round;
}

}  // namespace tally
