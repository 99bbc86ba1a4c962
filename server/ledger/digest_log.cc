#include "server/ledger/digest_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "server/ledger/format.h"

namespace tally {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kKindAt = 4;
constexpr size_t kRoundAt = 8;
constexpr size_t kParametersAt = 16;
constexpr size_t kWorkerAt = 24;
constexpr size_t kBlocksAt = kWorkerAt + kDigestWorkerBytes;

enum Kind : uint32_t { kReport = 1, kReportWithoutBlocks = 2, kLoss = 3 };

std::string EncodeRecord(Kind kind, const ReportedDigest& report, size_t blocks) {
  std::string bytes = kDigestRecordMagic;
  PutUint32(kind, &bytes);
  PutUint64(report.round, &bytes);
  PutUint64(report.parameters, &bytes);
  bytes.append(report.worker);
  bytes.resize(kBlocksAt, '\0');
  for (const uint64_t block : report.blocks) PutUint64(block, &bytes);
  bytes.resize(kBlocksAt + 8 * blocks, '\0');
  PutUint64(Digest64(bytes), &bytes);
  return bytes;
}

uint64_t DigestAtEnd(absl::string_view bytes) {
  return GetUint64(bytes.data() + bytes.size() - kDigestBytes);
}

bool IsGood(absl::string_view record) {
  return absl::StartsWith(record, kDigestRecordMagic) &&
         Digest64(record.substr(0, record.size() - kDigestBytes)) == DigestAtEnd(record);
}

// What a file system leaves where it had not written yet when the machine went down.
bool IsUnwritten(absl::string_view record) {
  return GetUint64(record.data()) == 0 || DigestAtEnd(record) == 0;
}

absl::Status CheckHeader(absl::string_view bytes, const Layout& layout) {
  const std::string expected = EncodeDigestLogHeader(layout);
  if (absl::StartsWith(bytes, expected)) return absl::OkStatus();
  if (bytes.size() < expected.size() || !absl::StartsWith(bytes, kDigestLogMagic)) {
    return absl::DataLossError(absl::StrCat(kDigestLogFile, ": no header of ", kDigestLogMagic));
  }
  const absl::string_view header = bytes.substr(0, kDigestLogHeaderBytes);
  if (Digest64(header.substr(0, header.size() - kDigestBytes)) != DigestAtEnd(header)) {
    return absl::DataLossError(absl::StrCat(kDigestLogFile, ": its header's digest is wrong"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(kDigestLogFile, ": expected version ", kVersion, " and layout ",
                   DigestToString(layout.digest()), ", found ", GetUint32(header.data() + 8),
                   " and ", DigestToString(GetUint64(header.data() + 16))));
}

std::string PathIn(const std::string& job_folder) {
  return absl::StrCat(job_folder, "/", kDigestLogFile);
}

}  // namespace

std::string EncodeDigestLogHeader(const Layout& layout) {
  std::string bytes = kDigestLogMagic;
  PutUint32(kVersion, &bytes);
  PutUint32(static_cast<uint32_t>(layout.blocks().size()), &bytes);
  PutUint64(layout.digest(), &bytes);
  PutUint64(Digest64(bytes), &bytes);
  return bytes;
}

std::string EncodeDigestRecord(const ReportedDigest& report, size_t blocks) {
  return EncodeRecord(report.blocks.empty() ? kReportWithoutBlocks : kReport, report, blocks);
}

std::string EncodeDigestLoss(uint64_t round, size_t blocks) {
  ReportedDigest loss;
  loss.round = round;
  return EncodeRecord(kLoss, loss, blocks);
}

size_t DigestRecordBytes(size_t blocks) { return kBlocksAt + 8 * blocks + kDigestBytes; }

std::unique_ptr<DigestLog> DigestLog::Open(const std::string& job_folder, const Layout& layout,
                                           uint64_t last_round) {
  std::unique_ptr<DigestLog> log(new DigestLog(PathIn(job_folder), layout.blocks().size()));
  absl::Status status = log->TakeUp(layout, last_round);
  if (absl::IsDataLoss(status) || absl::IsFailedPrecondition(status)) {
    spdlog::warn("{}: put aside as {}.damaged: {}", log->path_, kDigestLogFile, status.ToString());
    if (::rename(log->path_.c_str(), absl::StrCat(log->path_, ".damaged").c_str()) != 0) {
      status = ErrnoStatus(errno, "renaming", log->path_);
    } else {
      status = log->Begin(layout);
    }
  } else if (absl::IsNotFound(status)) {
    status = log->Begin(layout);
  }
  if (!status.ok()) spdlog::warn("{}: reports are not kept: {}", log->path_, status.ToString());
  return log;
}

absl::Status DigestLog::TakeUp(const Layout& layout, uint64_t last_round) {
  const std::string folder = path_.substr(0, path_.size() - std::strlen(kDigestLogFile) - 1);
  uint64_t good_bytes = 0;
  bool lost = false;
  {
    TALLY_ASSIGN_OR_RETURN(const DigestLogReader reader, DigestLogReader::Open(folder, layout));
    good_bytes = reader.good_bytes();
    const std::vector<uint64_t> rounds = reader.Rounds();
    lost = !rounds.empty() && rounds.back() > last_round;
  }
  TALLY_RETURN_IF_ERROR(OpenFile(good_bytes));
  if (lost) Write(EncodeDigestLoss(last_round, blocks_));
  return absl::OkStatus();
}

absl::Status DigestLog::Begin(const Layout& layout) {
  const std::string header = EncodeDigestLogHeader(layout);
  TALLY_RETURN_IF_ERROR(WriteFileAtomically(path_, header));
  return OpenFile(header.size());
}

absl::Status DigestLog::OpenFile(uint64_t end) {
  FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "opening", path_);
  if (::ftruncate(file.get(), static_cast<off_t>(end)) != 0) {
    return ErrnoStatus(errno, "cutting", path_);
  }
  absl::MutexLock lock(&mutex_);
  file_ = std::move(file);
  end_ = end;
  return absl::OkStatus();
}

void DigestLog::Append(uint64_t round, const std::string& worker, uint64_t parameters,
                       absl::Span<const uint64_t> blocks) {
  const bool fits = !worker.empty() && worker.size() <= kDigestWorkerBytes &&
                    (blocks.empty() || blocks.size() == blocks_);
  if (!fits) {
    spdlog::warn("{}: round {}: a report of {} is left out: expected a name of 1 to {} bytes and "
                 "digests of {} blocks, found {}", path_, round, worker, kDigestWorkerBytes, blocks_,
                 blocks.size());
    return;
  }
  Write(EncodeDigestRecord({round, worker, parameters, {blocks.begin(), blocks.end()}}, blocks_));
}

void DigestLog::Write(const std::string& record) {
  absl::MutexLock lock(&mutex_);
  if (!file_.valid()) return;  // told by Open
  const absl::Status written = WriteLocked(record);
  if (!written.ok() && !failing_) {
    spdlog::warn("reports are missing from now on: {}", written.ToString());
  }
  failing_ = !written.ok();
}

absl::Status DigestLog::WriteLocked(const std::string& record) {
  const ssize_t written = ::write(file_.get(), record.data(), record.size());
  if (written == static_cast<ssize_t>(record.size())) {
    end_ += record.size();
    return absl::OkStatus();
  }
  const absl::Status status = ErrnoStatus(written < 0 ? errno : ENOSPC, "writing", path_);
  if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0) {
    file_ = FileDescriptor();  // what follows a part of a record could not be read
  }
  return status;
}

absl::StatusOr<DigestLogReader> DigestLogReader::Open(const std::string& job_folder,
                                                      const Layout& layout) {
  TALLY_ASSIGN_OR_RETURN(auto file, MappedFile::OpenReadOnly(PathIn(job_folder)));
  TALLY_RETURN_IF_ERROR(CheckHeader(file->bytes(), layout));
  DigestLogReader reader(std::move(file), layout.blocks().size());
  reader.Index();
  return reader;
}

void DigestLogReader::Index() {
  const absl::string_view bytes = file_->bytes();
  const size_t size = DigestRecordBytes(blocks_);
  size_t end = kDigestLogHeaderBytes + (bytes.size() - kDigestLogHeaderBytes) / size * size;
  while (end > kDigestLogHeaderBytes && !IsGood(bytes.substr(end - size, size)) &&
         IsUnwritten(bytes.substr(end - size, size))) {
    end -= size;
  }
  good_bytes_ = end;
  for (size_t at = kDigestLogHeaderBytes; at < end; at += size) {
    const absl::string_view record = bytes.substr(at, size);
    const uint64_t round = GetUint64(record.data() + kRoundAt);
    if (!IsGood(record)) {
      damaged_.push_back({at, round});
    } else if (GetUint32(record.data() + kKindAt) == kLoss) {
      ForgetAfter(round);
    } else {
      reports_.emplace_back(round, at);
    }
  }
  std::sort(reports_.begin(), reports_.end());
}

void DigestLogReader::ForgetAfter(uint64_t round) {
  reports_.erase(std::remove_if(reports_.begin(), reports_.end(),
                                [&](const auto& report) { return report.first > round; }),
                 reports_.end());
}

std::vector<uint64_t> DigestLogReader::Rounds() const {
  std::vector<uint64_t> rounds;
  for (const auto& [round, offset] : reports_) {
    if (rounds.empty() || rounds.back() != round) rounds.push_back(round);
  }
  return rounds;
}

std::vector<ReportedDigest> DigestLogReader::Of(uint64_t round) const {
  std::vector<ReportedDigest> reports;
  auto it = std::lower_bound(reports_.begin(), reports_.end(), std::make_pair(round, uint64_t{0}));
  for (; it != reports_.end() && it->first == round; ++it) reports.push_back(At(it->second));
  return reports;
}

ReportedDigest DigestLogReader::At(uint64_t offset) const {
  const char* record = file_->bytes().data() + offset;
  ReportedDigest report;
  report.round = GetUint64(record + kRoundAt);
  report.parameters = GetUint64(record + kParametersAt);
  report.worker.assign(record + kWorkerAt, ::strnlen(record + kWorkerAt, kDigestWorkerBytes));
  if (GetUint32(record + kKindAt) == kReportWithoutBlocks) return report;
  for (size_t block = 0; block < blocks_; ++block) {
    report.blocks.push_back(GetUint64(record + kBlocksAt + 8 * block));
  }
  return report;
}

}  // namespace tally
