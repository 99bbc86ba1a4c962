#include "server/ledger/scan.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "server/ledger/format.h"
#include "server/ledger/record.h"

namespace tally {
namespace {

// The record of `round` at the start of `rest`: whole, and if `verify` with every digest right.
absl::StatusOr<uint64_t> CheckRecord(absl::string_view rest, uint64_t round, bool verify) {
  TALLY_ASSIGN_OR_RETURN(const RecordHead head, DecodeRecordHead(rest));
  if (head.round != round) {
    return absl::DataLossError(absl::StrCat("expected round ", round, ", found ", head.round));
  }
  if (head.length > rest.size()) {
    return absl::DataLossError(absl::StrCat("round ", round, ": expected ", head.length,
                                            " bytes, found ", rest.size()));
  }
  if (verify) {
    const auto record = ParseRecord(rest.substr(0, head.length));
    if (!record.ok()) return WithContext(record.status(), absl::StrCat("round ", round));
  }
  return head.length;
}

// Whether a record behind the start of `rest` says that `round` had been synced: then its record
// was whole once, and is not a tail that a crash has torn.
bool LaterRecordHasSynced(absl::string_view rest, uint64_t round) {
  for (size_t at = rest.find(kRecordMagic, 1); at != absl::string_view::npos;
       at = rest.find(kRecordMagic, at + 1)) {
    const auto head = DecodeRecordHead(rest.substr(at));
    if (head.ok() && head->round > round && head->synced >= round) return true;
  }
  return false;
}

// Adds the segment's rounds to the scan's index.
absl::Status ScanSegment(const std::string& path, uint64_t layout_digest, uint64_t named, bool last,
                         LedgerScan& scan) {
  TALLY_ASSIGN_OR_RETURN(const auto file, MappedFile::OpenReadOnly(path));
  const absl::string_view bytes = file->bytes();
  TALLY_RETURN_IF_ERROR(WithContext(CheckSegmentHeader(bytes, layout_digest, named), path));
  scan.index->AddSegment(path, kSegmentHeaderBytes);
  uint64_t offset = kSegmentHeaderBytes;
  while (offset < bytes.size()) {
    const absl::string_view rest = bytes.substr(offset);
    const uint64_t round = scan.index->last_round() + 1;
    const auto length = CheckRecord(rest, round, last);
    if (!length.ok()) {
      const absl::Status status =
          WithContext(length.status(), absl::StrCat(path, ": at offset ", offset));
      if (!last || LaterRecordHasSynced(rest, round)) return status;
      scan.torn_reason = std::string(status.message());
      break;
    }
    scan.index->AddRound(*length);
    offset += *length;
  }
  scan.last_segment = path;
  scan.good_bytes = offset;
  scan.file_bytes = bytes.size();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> ListSegments(const std::string& folder) {
  std::error_code error;
  std::vector<uint64_t> rounds;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (const auto round = ParseSegmentName(it->path().filename().string())) {
      rounds.push_back(*round);
    }
  }
  if (error) return ErrnoStatus(error.value(), "listing", folder);
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

absl::Status CheckSegmentHeader(absl::string_view bytes, uint64_t layout_digest,
                                uint64_t named) {
  TALLY_ASSIGN_OR_RETURN(const SegmentHeader header, DecodeSegmentHeader(bytes));
  if (header.layout_digest != layout_digest) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment header: expected the layout ", DigestToString(layout_digest),
                     ", found ", DigestToString(header.layout_digest)));
  }
  if (header.first_round != named) {
    return absl::DataLossError(absl::StrCat("segment header: expected first round ", named,
                                            " as in the file's name, found ", header.first_round));
  }
  return absl::OkStatus();
}

absl::StatusOr<LedgerScan> ScanLedger(const std::string& folder, uint64_t layout_digest,
                                      uint64_t first_round) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, ListSegments(folder));
  LedgerScan scan;
  scan.index = std::make_shared<LedgerIndex>(segments.empty() ? first_round : segments.front());
  for (const uint64_t named : segments) {
    const std::string path = absl::StrCat(folder, "/", SegmentName(named));
    const uint64_t expected = scan.index->last_round() + 1;
    if (named != expected) {
      return absl::DataLossError(absl::StrCat(
          path, ": a gap between segments: expected round ", expected, " to come next"));
    }
    TALLY_RETURN_IF_ERROR(
        ScanSegment(path, layout_digest, named, named == segments.back(), scan));
  }
  return scan;
}

}  // namespace tally
