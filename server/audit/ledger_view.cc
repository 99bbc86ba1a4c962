#include "server/audit/ledger_view.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "common/update/history.h"
#include "server/ledger/format.h"
#include "server/ledger/scan.h"

namespace tally {
namespace {

// What makes a bad record damage: a tail that was torn is cut before a later round is written.
bool HasLaterRound(absl::string_view rest, uint64_t round) {
  for (size_t at = rest.find(kRecordMagic, 1); at != absl::string_view::npos;
       at = rest.find(kRecordMagic, at + 1)) {
    const auto head = DecodeRecordHead(rest.substr(at));
    if (head.ok() && head->round > round) return true;
  }
  return false;
}

// The record at the start of `rest`, as far as its head says.
absl::StatusOr<RecordHead> CheckHead(absl::string_view rest, uint64_t round) {
  TALLY_ASSIGN_OR_RETURN(const RecordHead head, DecodeRecordHead(rest));
  if (head.round != round) {
    return absl::DataLossError(absl::StrCat("found round ", head.round));
  }
  if (head.length > rest.size()) {
    return absl::DataLossError(
        absl::StrCat("expected ", head.length, " bytes, found ", rest.size()));
  }
  return head;
}

uint64_t EntriesAt(const RecordHead& head) {
  return kRecordHeadBytes + uint64_t{head.spec_bytes} + head.closed_bytes;
}

// Of all before the payloads.
uint64_t FrontBytes(const RecordHead& head) {
  return EntriesAt(head) + uint64_t{head.chunks} * kChunkEntryBytes;
}

bool HasWholeFront(absl::string_view record, const RecordHead& head) {
  return Digest64(record.substr(0, FrontBytes(head))) ==
         GetUint64(record.data() + record.size() - kDigestBytes);
}

struct MappedRecord {
  std::unique_ptr<MappedFile> file;
  absl::string_view bytes;
  RecordHead head;
};

absl::StatusOr<MappedRecord> MapRecord(const LedgerIndex& index, uint64_t round) {
  TALLY_ASSIGN_OR_RETURN(const RecordPlace place, index.Find(round));
  MappedRecord record;
  TALLY_ASSIGN_OR_RETURN(record.file, MappedFile::OpenReadOnly(place.path));
  if (record.file->size() < place.offset + place.length) {
    return absl::DataLossError(absl::StrCat(place.path, ": ends within round ", round));
  }
  record.bytes = record.file->bytes().substr(place.offset, place.length);
  TALLY_ASSIGN_OR_RETURN(record.head, DecodeRecordHead(record.bytes));
  return record;
}

absl::StatusOr<v1::RoundSpec> ParseSpec(const MappedRecord& record, uint64_t round) {
  v1::RoundSpec spec;
  const bool parsed = spec.ParseFromArray(record.bytes.data() + kRecordHeadBytes,
                                          static_cast<int>(record.head.spec_bytes));
  if (parsed && spec.round() == round) return spec;
  return absl::DataLossError(absl::StrCat("ledger: round ", round, ": its record has no RoundSpec"));
}

}  // namespace

absl::StatusOr<LedgerView> LedgerView::Open(const std::string& folder, uint64_t layout_digest) {
  TALLY_ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, ListSegments(folder));
  LedgerView view(std::make_shared<LedgerIndex>(segments.empty() ? 1 : segments.front()));
  view.history_known_ = view.first_round() == 1;
  for (const uint64_t first_round : segments) {
    const std::string path = absl::StrCat(folder, "/", SegmentName(first_round));
    const uint64_t expected = view.last_round() + 1;
    if (first_round != expected) {
      view.AddFault(expected, absl::StrCat("ledger/", SegmentName(first_round)),
                    absl::StrCat("a gap between segments: expected round ", expected,
                                 " to come next, found ", first_round));
      break;
    }
    TALLY_ASSIGN_OR_RETURN(const auto file, MappedFile::OpenReadOnly(path));
    const bool last = first_round == segments.back();
    if (!view.AddSegment(path, file->bytes(), layout_digest, first_round, last)) break;
  }
  return view;
}

void LedgerView::AddFault(uint64_t round, absl::string_view where, absl::string_view problem) {
  faults_.push_back({round, absl::StrCat(where, ": ", problem)});
}

bool LedgerView::AddSegment(const std::string& path, absl::string_view bytes,
                            uint64_t layout_digest, uint64_t first_round, bool last) {
  const absl::Status header = CheckSegmentHeader(bytes, layout_digest, first_round);
  if (!header.ok()) {
    AddFault(first_round, absl::StrCat("ledger/", SegmentName(first_round)), header.message());
    return false;
  }
  index_->AddSegment(path, kSegmentHeaderBytes);
  uint64_t offset = kSegmentHeaderBytes;
  while (offset < bytes.size()) {
    if (!AddRecord(path, bytes, offset, last)) return false;
    offset += index_->BytesOf(last_round(), last_round());
  }
  return true;
}

bool LedgerView::AddRecord(const std::string& path, absl::string_view bytes, uint64_t offset,
                           bool last) {
  const uint64_t round = last_round() + 1;
  const absl::string_view rest = bytes.substr(offset);
  const std::string where = absl::StrCat(
      "ledger/", std::filesystem::path(path).filename().string(), ": at offset ", offset);
  const absl::StatusOr<RecordHead> head = CheckHead(rest, round);
  if (head.ok()) {
    CheckHistory(where, rest.substr(0, head->length));
    index_->AddRound(head->length);
    return true;
  }
  if (!last || HasLaterRound(rest, round)) {
    AddFault(round, where, absl::StrCat("round ", round, ": ", head.status().message()));
  }
  return false;
}

// Damage to the record itself is for the reader to find.
void LedgerView::CheckHistory(const std::string& where, absl::string_view record) {
  const RecordHead head = *DecodeRecordHead(record);
  v1::RoundClosed closed;
  const bool whole = HasWholeFront(record, head) &&
                     closed.ParseFromArray(record.data() + kRecordHeadBytes + head.spec_bytes,
                                           static_cast<int>(head.closed_bytes));
  if (whole && history_known_ && closed.history() != RoundHistory(history_, closed)) {
    AddFault(head.round, where,
             absl::StrCat("round ", head.round, ": a break in the history: expected ",
                          DigestToString(RoundHistory(history_, closed)), ", found ",
                          DigestToString(closed.history())));
  }
  history_known_ = whole;
  history_ = closed.history();
}

absl::StatusOr<v1::RoundSpec> LedgerView::SpecOf(uint64_t round) const {
  TALLY_ASSIGN_OR_RETURN(const MappedRecord record, MapRecord(*index_, round));
  return ParseSpec(record, round);
}

std::vector<uint32_t> LedgerView::DamagedBlocks(const Layout& layout, uint64_t round) const {
  const absl::StatusOr<MappedRecord> record = MapRecord(*index_, round);
  if (!record.ok() || !HasWholeFront(record->bytes, record->head)) return {};
  const absl::StatusOr<v1::RoundSpec> spec = ParseSpec(*record, round);
  if (!spec.ok()) return {};
  const absl::StatusOr<ChunkGrid> grid = GridForRound(layout, *spec);
  if (!grid.ok() || grid->size() != record->head.chunks) return {};
  std::vector<uint32_t> blocks;
  const char* entry = record->bytes.data() + EntriesAt(record->head);
  uint64_t at = FrontBytes(record->head);
  for (uint32_t chunk = 0; chunk < grid->size(); ++chunk, entry += kChunkEntryBytes) {
    const uint64_t size = GetUint64(entry);
    if (size > record->bytes.size() - at) return blocks;
    const uint32_t block = (*grid)[chunk].block;
    const bool same = Digest64(record->bytes.substr(at, size)) == GetUint64(entry + 8);
    if (!same && (blocks.empty() || blocks.back() != block)) blocks.push_back(block);
    at += size;
  }
  return blocks;
}

}  // namespace tally
