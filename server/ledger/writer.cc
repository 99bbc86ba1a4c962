#include "server/ledger/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/fault_point.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/checkpoint/paths.h"
#include "common/checkpoint/pending_file.h"
#include "common/update/history.h"
#include "server/ledger/format.h"
#include "server/ledger/record.h"
#include "server/ledger/scan.h"

namespace tally {
namespace {

absl::Status MakeLedgerFolder(const std::string& folder) {
  if (std::filesystem::is_directory(folder)) return absl::OkStatus();
  TALLY_RETURN_IF_ERROR(MakeFolders(folder));
  return SyncFolder(std::filesystem::absolute(folder).parent_path().string());
}

// Segments that a crash left before their rename.
absl::Status RemoveHalfMadeSegments(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (absl::StrContains(it->path().filename().string(), ".seg.tmp.")) {
      TALLY_RETURN_IF_ERROR(RemoveTree(it->path().string()));
    }
  }
  return error ? ErrnoStatus(error.value(), "listing", folder) : absl::OkStatus();
}

iovec IoVector(const void* data, size_t size) { return {const_cast<void*>(data), size}; }

std::vector<iovec> PiecesOf(const EncodedRecord& record, absl::Span<const ByteSpan> payloads) {
  std::vector<iovec> pieces;
  pieces.reserve(payloads.size() + 2);
  pieces.push_back(IoVector(record.front.data(), record.front.size()));
  for (const ByteSpan payload : payloads) {
    if (!payload.empty()) pieces.push_back(IoVector(payload.data(), payload.size()));
  }
  pieces.push_back(IoVector(record.back.data(), record.back.size()));
  return pieces;
}

// Drops the first `written` bytes of the pieces from `next` on; returns the new next.
size_t SkipWritten(std::vector<iovec>& pieces, size_t next, size_t written) {
  while (next < pieces.size() && written >= pieces[next].iov_len) {
    written -= pieces[next++].iov_len;
  }
  if (written > 0) {
    pieces[next].iov_base = static_cast<char*>(pieces[next].iov_base) + written;
    pieces[next].iov_len -= written;
  }
  return next;
}

// The first `size` bytes of the pieces from `next` on, in at most IOV_MAX pieces.
std::vector<iovec> FirstBytes(const std::vector<iovec>& pieces, size_t next, size_t size) {
  std::vector<iovec> first;
  for (; next < pieces.size() && size > 0 && first.size() < IOV_MAX; ++next) {
    first.push_back(IoVector(pieces[next].iov_base, std::min(size, pieces[next].iov_len)));
    size -= first.back().iov_len;
  }
  return first;
}

absl::Status WriteAt(int fd, uint64_t offset, std::vector<iovec> pieces, size_t size,
                     const std::string& path) {
  if (const int error = FaultErrno("ledger.append_errno"); error != 0) {
    return ErrnoStatus(error, "writing", path);
  }
  for (size_t next = 0; next < pieces.size();) {
    const std::vector<iovec> some =
        FirstBytes(pieces, next, FaultLimit("ledger.mid_record", size));
    const ssize_t written =
        ::pwritev(fd, some.data(), static_cast<int>(some.size()), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "writing", path);
    }
    FaultPoint("ledger.mid_record");
    offset += static_cast<uint64_t>(written);
    size -= static_cast<size_t>(written);
    next = SkipWritten(pieces, next, static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Truncate(const FileDescriptor& file, uint64_t size, const std::string& path) {
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    return ErrnoStatus(errno, "truncating", path);
  }
  return absl::OkStatus();
}

absl::Status SyncData(const FileDescriptor& file, const std::string& path) {
  FaultPoint("ledger.before_sync");
  if (::fdatasync(file.get()) != 0) return ErrnoStatus(errno, "syncing", path);
  FaultPoint("ledger.after_sync");
  return absl::OkStatus();
}

// Synced at once, so that segments go in their order: a gap between them would be damage.
absl::Status RemoveSegment(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "removing", path);
  return SyncFolder(FolderOf(path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LedgerWriter>> LedgerWriter::Open(const std::string& folder,
                                                                 uint64_t layout_digest,
                                                                 const LedgerOptions& options) {
  if (options.first_round == 0) {
    return absl::InvalidArgumentError("ledger: first_round: expected 1 or more, found 0");
  }
  TALLY_RETURN_IF_ERROR(MakeLedgerFolder(folder));
  TALLY_RETURN_IF_ERROR(RemoveHalfMadeSegments(folder));
  TALLY_ASSIGN_OR_RETURN(const LedgerScan scan,
                         ScanLedger(folder, layout_digest, options.first_round));
  std::unique_ptr<LedgerWriter> writer(
      new LedgerWriter(folder, layout_digest, options, scan.index));
  if (!scan.last_segment.empty()) TALLY_RETURN_IF_ERROR(writer->Resume(scan));
  return writer;
}

absl::Status LedgerWriter::Resume(const LedgerScan& scan) {
  absl::MutexLock lock(&mutex_);
  TALLY_RETURN_IF_ERROR(OpenSegment(scan.last_segment, scan.good_bytes));
  cut_bytes_ = scan.file_bytes - scan.good_bytes;
  cut_reason_ = scan.torn_reason;
  if (cut_bytes_ > 0) TALLY_RETURN_IF_ERROR(Truncate(*file_, end_, path_));
  // What a process wrote before its end may still be in memory alone.
  TALLY_RETURN_IF_ERROR(SyncData(*file_, path_));
  synced_ = last_round();
  if (last_round() < index_->first_round()) return absl::OkStatus();
  TALLY_ASSIGN_OR_RETURN(const LedgerRound last, reader().Read(last_round()));
  last_history_ = last.closed.history();
  return absl::OkStatus();
}

absl::Status LedgerWriter::OpenSegment(const std::string& path, uint64_t good_bytes) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "opening", path);
  file_ = std::make_shared<const FileDescriptor>(std::move(fd));
  path_ = path;
  end_ = good_bytes;
  return absl::OkStatus();
}

absl::Status LedgerWriter::StartSegment(uint64_t first_round) {
  const std::string path = absl::StrCat(folder_, "/", SegmentName(first_round));
  TALLY_ASSIGN_OR_RETURN(PendingFile segment, PendingFile::Create(path));
  TALLY_RETURN_IF_ERROR(segment.Write(EncodeSegmentHeader({layout_digest_, first_round})));
  FaultPoint("segment.before_rename");
  TALLY_RETURN_IF_ERROR(segment.Commit());
  TALLY_RETURN_IF_ERROR(OpenSegment(path, kSegmentHeaderBytes));
  index_->AddSegment(path, kSegmentHeaderBytes);
  return absl::OkStatus();
}

absl::Status LedgerWriter::CutBack() {
  TALLY_RETURN_IF_ERROR(Truncate(*file_, end_, path_));
  dirty_end_ = false;
  return absl::OkStatus();
}

absl::Status LedgerWriter::MakeRoom() {
  if (dirty_end_) TALLY_RETURN_IF_ERROR(CutBack());
  if (file_ == nullptr) return StartSegment(last_round() + 1);
  if (end_ < options_.segment_bytes || end_ == kSegmentHeaderBytes) return absl::OkStatus();
  // Only the last segment may have a torn tail.
  broken_ = SyncData(*file_, path_);
  TALLY_RETURN_IF_ERROR(broken_);
  synced_ = last_round();
  return StartSegment(last_round() + 1);
}

absl::Status LedgerWriter::CheckFollows(const v1::RoundSpec& spec,
                                        const v1::RoundClosed& closed) const {
  if (spec.round() != last_round() + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ledger: expected round ", last_round() + 1, " to come next, found ", spec.round()));
  }
  const uint64_t history = RoundHistory(last_history_, closed);
  if (closed.history() == history) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("ledger: round ", spec.round(), ": expected history ", DigestToString(history),
                   ", found ", DigestToString(closed.history())));
}

absl::Status LedgerWriter::Append(const v1::RoundSpec& spec, const v1::RoundClosed& closed,
                                  absl::Span<const ByteSpan> aggregates) {
  absl::MutexLock lock(&mutex_);
  TALLY_RETURN_IF_ERROR(broken_);
  TALLY_RETURN_IF_ERROR(CheckFollows(spec, closed));
  TALLY_RETURN_IF_ERROR(MakeRoom());
  TALLY_ASSIGN_OR_RETURN(const EncodedRecord record,
                         EncodeRecord(spec, closed, aggregates, synced_));
  FaultPoint("ledger.before_append");
  const absl::Status written =
      WriteAt(file_->get(), end_, PiecesOf(record, aggregates), record.length, path_);
  if (!written.ok()) {
    dirty_end_ = true;
    const absl::Status cut = CutBack();
    if (!cut.ok()) spdlog::error("ledger: {}", cut.ToString());
    return WithContext(written, absl::StrCat("ledger: round ", spec.round()));
  }
  FaultPoint("ledger.after_append");
  end_ += record.length;
  last_history_ = closed.history();
  index_->AddRound(record.length);
  return absl::OkStatus();
}

absl::Status LedgerWriter::Sync() {
  std::shared_ptr<const FileDescriptor> file;
  std::string path;
  uint64_t round = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (!broken_.ok() || file_ == nullptr || synced_ == last_round()) return broken_;
    file = file_;
    path = path_;
    round = last_round();
  }
  const absl::Status synced = SyncData(*file, path);  // appends go on meanwhile
  absl::MutexLock lock(&mutex_);
  if (!synced.ok()) broken_ = synced;
  TALLY_RETURN_IF_ERROR(broken_);
  synced_ = std::max(synced_, round);
  return absl::OkStatus();
}

absl::Status LedgerWriter::DropBefore(uint64_t round) {
  absl::MutexLock lock(&dropping_);
  for (std::string& path : index_->DropBefore(round)) dropped_.push_back(std::move(path));
  while (!dropped_.empty()) {
    TALLY_RETURN_IF_ERROR(RemoveSegment(dropped_.front()));
    dropped_.pop_front();
  }
  return absl::OkStatus();
}

uint64_t LedgerWriter::last_history() const {
  absl::MutexLock lock(&mutex_);
  return last_history_;
}

uint64_t LedgerWriter::synced_round() const {
  absl::MutexLock lock(&mutex_);
  return synced_;
}

}  // namespace tally
