// What workers reported of their parameters: JOBFOLDER/digests.log, for whoever verifies the job
// later. Fixed-width little-endian integers; digests are Digest64 (XXH3, 64 bits). In prose with a
// whole example: docs/ledger-format.md.
//
//   log    := header record*
//   header := "TALLYDL1" version(4) blocks(4) layout_digest(8) digest(8)
//             digest: of the 24 bytes before it
//   record := "DGR1" kind(4) round(8) parameters(8) worker(64) block(8)*blocks digest(8)
//             kind: 1 a report, 2 a report without digests of blocks (they are zero), 3 a loss:
//                   the ledger ended at `round` when this was written, so that what stands before
//                   it of later rounds is of rounds that may have been done again
//             parameters, block: ParametersDigest and BlockDigests of common/layout
//             worker: its name, zeros behind it; empty for a loss
//             digest: of the record's bytes before it
//
// All records of a log are of one size, 96 + 8 * blocks, so that a damaged one hides no other.
//
// Example: of a model of one block, round 35, worker "a", 104 bytes:
//   44 47 52 31 | 01 00 00 00 | 23 00 00 00 00 00 00 00 | parameters | 61 00 (63 times)
//   block 0 | digest of the 96 bytes so far
//
// Nothing of it is synced: the model does not depend on it, and what a crash of the machine takes is
// the latest reports, of rounds that were compared when they came. It stays whole when old rounds
// go: a hundred bytes and a block's eight for each worker and comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/file.h"
#include "common/layout/layout.h"

namespace tally {

inline constexpr char kDigestLogMagic[] = "TALLYDL1";
inline constexpr char kDigestRecordMagic[] = "DGR1";
inline constexpr char kDigestLogFile[] = "digests.log";
inline constexpr size_t kDigestLogHeaderBytes = 32;
inline constexpr size_t kDigestWorkerBytes = 64;

struct ReportedDigest {
  uint64_t round = 0;
  std::string worker;
  uint64_t parameters = 0;
  std::vector<uint64_t> blocks;  // by block; empty if the worker reported none
};

std::string EncodeDigestLogHeader(const Layout& layout);
// Of a report; `blocks` is the layout's number of them.
std::string EncodeDigestRecord(const ReportedDigest& report, size_t blocks);
std::string EncodeDigestLoss(uint64_t round, size_t blocks);
// "DGR1" to digest.
size_t DigestRecordBytes(size_t blocks);

// Appends. Thread-safe; a call is one write to the page cache. No trouble with it ends a job: it is
// told in the server's log, and the reports are missing.
class DigestLog {
 public:
  // Begins or takes up the log in a job's folder; never null. A torn tail is cut. A log that cannot be
  // taken up (damaged header, other layout) is put aside as digests.log.damaged. `last_round` is the
  // ledger's: reports of later rounds are of rounds that the disk has lost, and count no more.
  static std::unique_ptr<DigestLog> Open(const std::string& job_folder, const Layout& layout,
                                         uint64_t last_round);

  // `blocks` has one digest a block, or none. INVALID input is left out with a warning.
  void Append(uint64_t round, const std::string& worker, uint64_t parameters,
              absl::Span<const uint64_t> blocks);

  const std::string& path() const { return path_; }

 private:
  DigestLog(std::string path, size_t blocks) : path_(std::move(path)), blocks_(blocks) {}
  absl::Status TakeUp(const Layout& layout, uint64_t last_round);
  absl::Status Begin(const Layout& layout);
  absl::Status OpenFile(uint64_t end);
  void Write(const std::string& record) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteLocked(const std::string& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const size_t blocks_;
  absl::Mutex mutex_;
  FileDescriptor file_ ABSL_GUARDED_BY(mutex_);
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last whole record
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
};

// A log's reports that count, as they are when it is opened; the writer may go on. The file is mapped:
// 16 bytes of memory a report. Immutable.
class DigestLogReader {
 public:
  struct Damage {
    uint64_t offset = 0;
    uint64_t round = 0;  // as the damaged record says
  };

  // NOT_FOUND; FAILED_PRECONDITION for another layout or version; DATA_LOSS for a damaged header.
  // Errors and damage name the file, not its folder.
  static absl::StatusOr<DigestLogReader> Open(const std::string& job_folder, const Layout& layout);

  // With reports, ascending.
  std::vector<uint64_t> Rounds() const;
  // In the order in which they came.
  std::vector<ReportedDigest> Of(uint64_t round) const;
  // Records that are damaged, other than a torn tail.
  const std::vector<Damage>& damaged() const { return damaged_; }
  // End of what is whole; behind it is a torn tail, if anything.
  uint64_t good_bytes() const { return good_bytes_; }

 private:
  DigestLogReader(std::unique_ptr<MappedFile> file, size_t blocks)
      : file_(std::move(file)), blocks_(blocks) {}
  void Index();
  void ForgetAfter(uint64_t round);
  ReportedDigest At(uint64_t offset) const;

  std::unique_ptr<MappedFile> file_;
  size_t blocks_;
  std::vector<std::pair<uint64_t, uint64_t>> reports_;  // round and offset, ascending
  std::vector<Damage> damaged_;
  uint64_t good_bytes_ = kDigestLogHeaderBytes;
};

}  // namespace tally
