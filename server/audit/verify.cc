#include "server/audit/verify.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "server/audit/job_files.h"
#include "server/audit/snapshot_check.h"
#include "server/ledger/digest_log.h"
#include "server/ledger/fold.h"
#include "server/ledger/format.h"

namespace tally {
namespace {

constexpr char kSnapshot[] = "snapshot";
constexpr char kLedger[] = "ledger";

// The first of an ascending list that is above `round`, or `otherwise`.
uint64_t NextAbove(const std::vector<uint64_t>& rounds, uint64_t round, uint64_t otherwise) {
  const auto next = std::upper_bound(rounds.begin(), rounds.end(), round);
  return next == rounds.end() ? otherwise : std::min(*next, otherwise);
}

class Verifier {
 public:
  Verifier(const VerifyOptions& options, const VerifyReport& report, JobFiles files)
      : options_(options), report_(report), files_(std::move(files)) {}

  absl::Status Run() {
    OpenDigests();
    CheckBeginning();
    TALLY_ASSIGN_OR_RETURN(std::unique_ptr<Snapshot> start, FindStart());
    progress_.set_last_round(files_.ledger.last_round());
    if (start == nullptr) return Finish(nullptr);
    progress_.set_first_round(start->round());
    progress_.set_round(start->round());
    Fold fold = Fold::FromSnapshot(files_.layout, *start);
    start.reset();
    CompareReports(fold);
    TALLY_RETURN_IF_ERROR(Replay(fold));
    return Finish(&fold);
  }

 private:
  void Add(v1::Difference difference) {
    progress_.set_difference_count(progress_.difference_count() + 1);
    if (progress_.difference_count() > kMostDifferences) return;
    *progress_.add_differences() = std::move(difference);
  }

  void AddProblem(uint64_t round, const std::string& source, const std::string& problem,
                  const std::string& block = "") {
    v1::Difference difference;
    difference.set_round(round);
    difference.set_block(block);
    difference.set_source(source);
    difference.set_problem(problem);
    Add(std::move(difference));
  }

  bool Tell() {
    const bool go_on = report_(progress_);
    progress_.clear_differences();
    return go_on;
  }

  void OpenDigests() {
    absl::StatusOr<DigestLogReader> reader = DigestLogReader::Open(files_.folder, files_.layout);
    if (absl::IsNotFound(reader.status())) return;  // nobody has reported anything
    if (!reader.ok()) {
      return AddProblem(0, kDigestLogFile, WithoutFolder(reader.status(), files_.folder));
    }
    for (const DigestLogReader::Damage& damage : reader->damaged()) {
      AddProblem(damage.round, kDigestLogFile,
                 absl::StrCat("the record at offset ", damage.offset, ": its digest is wrong"));
    }
    digests_ = *std::move(reader);
    reported_ = digests_->Rounds();
  }

  // Of a job that goes on retention may have taken the rounds and be about to take the snapshot.
  void CheckBeginning() {
    const uint64_t first = files_.ledger.first_round();
    if (options_.expected_step == 0 || Snapshots().empty()) return;
    const uint64_t oldest = Snapshots().front();
    if (oldest + 1 >= first || options_.from_round.value_or(0) > oldest) return;
    AddProblem(oldest + 1, kLedger,
               absl::StrCat("rounds ", oldest + 1, " to ", first - 1, " are missing: the snapshot of "
                            "round ", oldest, " is kept, but the first segment is ",
                            SegmentName(first)));
  }

  const std::vector<uint64_t>& Snapshots() const { return files_.snapshot_rounds; }

  // The snapshots that a replay can begin with, in the order of preference.
  std::vector<uint64_t> Candidates() const {
    std::vector<uint64_t> rounds;
    for (const uint64_t round : Snapshots()) {
      const bool continued =
          round + 1 >= files_.ledger.first_round() && round <= files_.ledger.last_round();
      if (continued && round <= options_.from_round.value_or(round)) rounds.push_back(round);
    }
    if (options_.from_round.has_value()) std::reverse(rounds.begin(), rounds.end());
    return rounds;
  }

  // Null if none of them can be read, which has been told then.
  absl::StatusOr<std::unique_ptr<Snapshot>> FindStart() {
    const std::vector<uint64_t> rounds = Candidates();
    if (rounds.empty()) return NoStart();
    for (const uint64_t round : rounds) {
      absl::StatusOr<std::unique_ptr<Snapshot>> snapshot = files_.snapshots.Open(round);
      if (snapshot.ok()) return snapshot;
      if (absl::IsNotFound(snapshot.status())) continue;  // retention took it
      AddProblem(round, kSnapshot,
                 WithoutFolder(snapshot.status(), files_.snapshots.PathOf(round)));
    }
    if (progress_.difference_count() == 0) return Overtaken();
    return nullptr;
  }

  absl::Status NoStart() const {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.job_id, ": no snapshot to begin with",
        options_.from_round.has_value() ? absl::StrCat(" up to round ", *options_.from_round) : "",
        "; there are those of rounds ", absl::StrJoin(Snapshots(), ", "), " and ledger rounds ",
        files_.ledger.first_round(), " to ", files_.ledger.last_round()));
  }

  absl::Status Overtaken() const {
    return absl::AbortedError(absl::StrCat(
        options_.job_id, ": old rounds were removed while they were to be read; verify it again"));
  }

  uint64_t NextStop(uint64_t round) const {
    const uint64_t last = files_.ledger.last_round();
    return std::min(NextAbove(Snapshots(), round, last), NextAbove(reported_, round, last));
  }

  absl::Status Replay(Fold& fold) {
    const LedgerReader reader = files_.ledger.reader();
    while (fold.round() < files_.ledger.last_round()) {
      TellBreaks(fold.round() + 1);
      if (!Tell()) return absl::CancelledError("verification stopped");
      const uint64_t stop = NextStop(fold.round());
      const absl::Status advanced = Advance(fold, reader, stop);
      progress_.set_round(fold.round());
      if (!advanced.ok()) return CannotReplay(fold.round() + 1, advanced);
      if (fold.round() == stop) {
        CompareReports(fold);
        CompareSnapshotOf(fold);
      }
    }
    return absl::OkStatus();
  }

  // By a pass. After an error by one round after the other, which shows the one at fault.
  static absl::Status Advance(Fold& fold, const LedgerReader& reader, uint64_t stop) {
    if (fold.AdvanceOnce(reader, stop).ok()) return absl::OkStatus();
    while (fold.round() < stop) {
      TALLY_RETURN_IF_ERROR(fold.AdvanceOnce(reader, stop, {.rounds = 1}));
    }
    return absl::OkStatus();
  }

  // Breaks in the history up to the rounds that come next, so that they come in order.
  void TellBreaks(uint64_t round) {
    const auto& faults = files_.ledger.faults();
    while (next_fault_ < faults.size() && faults[next_fault_].round <= round) {
      const LedgerFault& fault = faults[next_fault_++];
      if (fault.round > progress_.first_round()) AddProblem(fault.round, kLedger, fault.problem);
    }
  }

  absl::Status CannotReplay(uint64_t round, const absl::Status& status) {
    if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
      spdlog::error("verifying {}: {}", options_.job_id, status.ToString());
      return absl::ResourceExhaustedError(
          "the server's disk has no room to replay the ledger; the server's log says more");
    }
    if (absl::IsNotFound(status) && !std::filesystem::exists(OldestSegment())) return Overtaken();
    const std::string problem = WithoutFolder(status, files_.folder);
    const std::vector<uint32_t> blocks = files_.ledger.DamagedBlocks(files_.layout, round);
    if (blocks.empty()) AddProblem(round, kLedger, problem);
    for (const uint32_t block : blocks) {
      AddProblem(round, kLedger, problem, files_.layout.blocks()[block].name);
    }
    return absl::OkStatus();
  }

  std::string OldestSegment() const {
    return absl::StrCat(files_.folder, "/ledger/", SegmentName(files_.ledger.first_round()));
  }

  void CompareReports(const Fold& fold) {
    if (!digests_.has_value()) return;
    for (const ReportedDigest& report : digests_->Of(fold.round())) {
      progress_.set_worker_digests(progress_.worker_digests() + 1);
      for (v1::Difference& difference : CompareDigests(files_.layout, fold, report.worker,
                                                       report.parameters, report.blocks)) {
        Add(std::move(difference));
      }
    }
  }

  void CompareSnapshotOf(const Fold& fold) {
    if (!std::binary_search(Snapshots().begin(), Snapshots().end(), fold.round())) return;
    std::vector<v1::Difference> differences = CompareSnapshot(files_.snapshots, fold);
    if (!std::filesystem::exists(files_.snapshots.PathOf(fold.round()))) return;  // retention
    progress_.set_snapshot_digests(progress_.snapshot_digests() + 1);
    for (v1::Difference& difference : differences) Add(std::move(difference));
  }

  // The ledger's own end against what is known to have come after it.
  void CheckEnd() {
    const uint64_t last = files_.ledger.last_round();
    if (Snapshots().back() > last) {
      AddProblem(last + 1, kLedger,
                 absl::StrCat("ends with round ", last, ", but there is a snapshot of round ",
                              Snapshots().back()));
      return;
    }
    if (options_.expected_step == 0) return;
    uint64_t step = 0;
    if (last >= files_.ledger.first_round()) {
      const absl::StatusOr<v1::RoundSpec> spec = files_.ledger.SpecOf(last);
      if (!spec.ok()) return;  // told by the replay
      step = spec->step();
    }
    if (step >= options_.expected_step) return;
    AddProblem(last + 1, kLedger,
               absl::StrCat("ends with training round ", step, ", but the job has done ",
                            options_.expected_step));
  }

  absl::Status Finish(const Fold* fold) {
    const bool whole = fold != nullptr && fold->round() == files_.ledger.last_round();
    TellBreaks(fold == nullptr || whole ? ~uint64_t{0} : fold->round());
    const bool cut = !files_.ledger.faults().empty() &&
                     files_.ledger.faults().back().round > files_.ledger.last_round();
    if (whole && !cut) CheckEnd();
    if (whole) progress_.set_parameters_digest(DigestToString(fold->digest()));
    progress_.set_done(true);
    Tell();
    return absl::OkStatus();
  }

  const VerifyOptions& options_;
  const VerifyReport& report_;
  const JobFiles files_;
  std::optional<DigestLogReader> digests_;
  std::vector<uint64_t> reported_;   // rounds, ascending
  size_t next_fault_ = 0;
  v1::VerifyProgress progress_;
};

}  // namespace

absl::Status VerifyJobFolder(const VerifyOptions& options, const VerifyReport& report) {
  absl::StatusOr<JobFiles> files = OpenJobFiles(options.job_id, options.job_folder);
  const absl::Status status =
      files.ok() ? Verifier(options, report, *std::move(files)).Run() : files.status();
  return StatusWithoutFolder(status, options.job_folder);
}

}  // namespace tally
