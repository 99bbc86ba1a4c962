#include "server/ledger/reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "server/ledger/record.h"
#include "server/ledger/scan.h"

namespace tally {
namespace {

absl::Status ReadExactly(const RecordPlace& place, char* out) {
  const FileDescriptor fd(::open(place.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", place.path);
  uint64_t done = 0;
  while (done < place.length) {
    const ssize_t got = ::pread(fd.get(), out + done, place.length - done,
                                static_cast<off_t>(place.offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "reading", place.path);
    }
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat("ends ", place.length - done, " bytes before the record does"));
    }
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LedgerReader> LedgerReader::Open(const std::string& folder,
                                                uint64_t layout_digest) {
  TALLY_ASSIGN_OR_RETURN(LedgerScan scan, ScanLedger(folder, layout_digest, 1));
  return LedgerReader(std::move(scan.index));
}

absl::StatusOr<LedgerRound> LedgerReader::Read(uint64_t round) const {
  TALLY_ASSIGN_OR_RETURN(const RecordPlace place, index_->Find(round));
  const std::string where = absl::StrCat(place.path, ": at offset ", place.offset, ": round ", round);
  LedgerRound result;
  result.buffer = std::make_unique_for_overwrite<char[]>(place.length);
  const absl::Status read = ReadExactly(place, result.buffer.get());
  if (absl::IsNotFound(read)) TALLY_RETURN_IF_ERROR(index_->Find(round).status());  // dropped now
  TALLY_RETURN_IF_ERROR(WithContext(read, where));
  absl::StatusOr<ParsedRecord> record = ParseRecord({result.buffer.get(), place.length});
  if (!record.ok()) return WithContext(record.status(), where);
  if (record->spec.round() != round) {
    return absl::DataLossError(absl::StrCat(where, ": found round ", record->spec.round()));
  }
  result.spec = std::move(record->spec);
  result.closed = std::move(record->closed);
  result.aggregates = std::move(record->aggregates);
  result.chunk_digests = std::move(record->chunk_digests);
  result.chunks = record->chunks;
  return result;
}

}  // namespace tally
