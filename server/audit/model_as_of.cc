#include "server/audit/model_as_of.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "server/audit/job_files.h"
#include "server/ledger/fold.h"

namespace tally {
namespace {

// Training rounds that a model can be made of.
struct Kept {
  uint64_t first = 0;
  uint64_t last = 0;
  std::string Words() const { return absl::StrCat("there are rounds ", first, " to ", last); }
};

bool Has(const LedgerView& ledger, uint64_t round) {
  return round >= ledger.first_round() && round <= ledger.last_round();
}

// The training round that ledger round `round`, perhaps before the ledger's first, belongs to.
absl::StatusOr<uint64_t> StepOf(const LedgerView& ledger, uint64_t round) {
  if (round == 0) return 0;
  if (Has(ledger, round)) {
    TALLY_ASSIGN_OR_RETURN(const v1::RoundSpec spec, ledger.SpecOf(round));
    return spec.step();
  }
  TALLY_ASSIGN_OR_RETURN(const v1::RoundSpec next, ledger.SpecOf(round + 1));
  const bool of_step_before = next.buffers() || next.mask_size() != 0;
  return of_step_before ? next.step() : next.step() - 1;
}

// Nothing if there is no snapshot that the ledger continues.
absl::StatusOr<std::optional<Kept>> KeptRounds(const JobFiles& files) {
  for (const uint64_t round : files.snapshot_rounds) {
    if (round + 1 < files.ledger.first_round() || round > files.ledger.last_round()) continue;
    Kept kept;
    TALLY_ASSIGN_OR_RETURN(kept.first, StepOf(files.ledger, round));
    TALLY_ASSIGN_OR_RETURN(kept.last, StepOf(files.ledger, files.ledger.last_round()));
    return kept;
  }
  return std::nullopt;
}

// The last ledger round of a training round from `kept`: specs' steps never fall.
absl::StatusOr<uint64_t> LastRoundOf(const LedgerView& ledger, uint64_t step) {
  uint64_t below = ledger.first_round() - 1;  // its step is at most `step`
  uint64_t above = ledger.last_round() + 1;
  while (above - below > 1) {
    const uint64_t middle = below + (above - below) / 2;
    TALLY_ASSIGN_OR_RETURN(const uint64_t found, StepOf(ledger, middle));
    (found <= step ? below : above) = middle;
  }
  return below;
}

absl::StatusOr<uint64_t> FindRound(const std::string& job_id, const JobFiles& files,
                                   uint64_t step) {
  TALLY_ASSIGN_OR_RETURN(const std::optional<Kept> kept, KeptRounds(files));
  if (!kept.has_value()) {
    return absl::NotFoundError(absl::StrCat(job_id, ": no model of it is kept"));
  }
  const std::string what = absl::StrCat(job_id, ": round ", step);
  if (step > kept->last) {
    return absl::OutOfRangeError(absl::StrCat(what, " is not done: ", kept->Words()));
  }
  if (step < kept->first) {
    return absl::NotFoundError(absl::StrCat(what, " is not kept: ", kept->Words()));
  }
  return LastRoundOf(files.ledger, step);
}

// False if it cannot be linked: gone, or a file system without links.
bool Link(const Snapshot& snapshot, const std::string& folder) {
  for (const char* name : {"/config.json", "/model.safetensors"}) {
    const std::string to = absl::StrCat(folder, name);
    if (::link(absl::StrCat(snapshot.path(), name).c_str(), to.c_str()) != 0) return false;
  }
  return true;
}

absl::Status WriteModel(const SnapshotStore& target, const Snapshot& snapshot, const Fold& fold) {
  if (snapshot.round() == fold.round()) {
    TALLY_RETURN_IF_ERROR(MakeFolders(target.PathOf(fold.round())));
    if (Link(snapshot, target.PathOf(fold.round()))) return absl::OkStatus();
    TALLY_RETURN_IF_ERROR(RemoveTree(target.PathOf(fold.round())));
  }
  return target.Write(fold.round(), fold.parameters(), {}, snapshot.config_json(), fold.digest());
}

absl::Status FoldAndWrite(const JobFiles& files, uint64_t round, const SnapshotStore& target,
                          const std::function<bool()>& go_on) {
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> snapshot, files.snapshots.Latest(round));
  Fold fold = Fold::FromSnapshot(files.layout, *snapshot);
  const LedgerReader reader = files.ledger.reader();
  while (fold.round() < round) {
    if (!go_on()) return absl::CancelledError("download stopped");
    TALLY_RETURN_IF_ERROR(fold.AdvanceOnce(reader, round));
  }
  return WriteModel(target, *snapshot, fold);
}

// The server's log has paths, people get words.
absl::Status ForPeople(const std::string& job_id, uint64_t step, const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  spdlog::error("{}: making the model as of round {}: {}", job_id, step, status.ToString());
  const std::string what = absl::StrCat(job_id, ": the model as of round ", step);
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        what, ": no room for it on the server's disk; the server's log says more"));
  }
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(what, ": what it is made of is gone from the server"));
  }
  if (absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) {
    return absl::DataLossError(absl::StrCat(what, " cannot be made from its ledger; `tally verify ",
                                            job_id, "` says where it is damaged"));
  }
  return absl::InternalError(absl::StrCat(what, " could not be made; the server's log says why"));
}

}  // namespace

ExportedModel::~ExportedModel() {
  if (const absl::Status removed = RemoveTree(root_); !removed.ok()) {
    spdlog::warn("exports: {}", removed.ToString());
  }
}

ModelExports::ModelExports(const std::string& state_dir)
    : folder_(absl::StrCat(state_dir, "/exports")) {
  if (const absl::Status removed = RemoveTree(folder_); !removed.ok()) {
    spdlog::warn("exports: {}", removed.ToString());
  }
}

absl::StatusOr<std::unique_ptr<ExportedModel>> ModelExports::Make(
    const std::string& job_id, const std::string& job_folder, uint64_t training_round,
    const std::function<bool()>& go_on) const {
  absl::StatusOr<JobFiles> files = OpenJobFiles(job_id, job_folder);
  if (absl::IsNotFound(files.status()) || absl::IsFailedPrecondition(files.status())) {
    return StatusWithoutFolder(files.status(), job_folder);
  }
  TALLY_RETURN_IF_ERROR(ForPeople(job_id, training_round, files.status()));
  const absl::StatusOr<uint64_t> round = FindRound(job_id, *files, training_round);
  if (absl::IsNotFound(round.status()) || absl::IsOutOfRange(round.status())) return round.status();
  TALLY_RETURN_IF_ERROR(ForPeople(job_id, training_round, round.status()));
  TALLY_RETURN_IF_ERROR(ForPeople(job_id, training_round, MakeFolders(folder_)));
  std::string root = absl::StrCat(folder_, "/", job_id, ".XXXXXX");
  if (::mkdtemp(root.data()) == nullptr) {
    return ForPeople(job_id, training_round, ErrnoStatus(errno, "creating", root));
  }
  auto model = std::make_unique<ExportedModel>(root);
  const SnapshotStore target = SnapshotStore::OpenToRead(root, files->layout);
  TALLY_RETURN_IF_ERROR(
      ForPeople(job_id, training_round, FoldAndWrite(*files, *round, target, go_on)));
  model->folder_ = target.PathOf(*round);
  return model;
}

}  // namespace tally
