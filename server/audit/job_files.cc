#include "server/audit/job_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace tally {
namespace {

absl::StatusOr<Layout> ReadLayout(const std::string& path) {
  TALLY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  v1::LayoutProto proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("layout.pb: not a layout");
  return Layout::FromProto(proto);
}

absl::Status NoModelYet(const std::string& job_id) {
  return absl::FailedPreconditionError(
      absl::StrCat(job_id, ": no worker has brought its base model yet"));
}

}  // namespace

absl::StatusOr<JobFiles> OpenJobFiles(const std::string& job_id, const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) {
    return absl::NotFoundError(absl::StrCat(job_id, ": its model is gone from the server"));
  }
  absl::StatusOr<Layout> layout = ReadLayout(absl::StrCat(folder, "/layout.pb"));
  if (absl::IsNotFound(layout.status())) return NoModelYet(job_id);
  TALLY_RETURN_IF_ERROR(layout.status());
  const std::string ledger_folder = absl::StrCat(folder, "/ledger");
  if (!std::filesystem::exists(ledger_folder, error)) return NoModelYet(job_id);
  SnapshotStore snapshots = SnapshotStore::OpenToRead(absl::StrCat(folder, "/snapshots"), *layout);
  TALLY_ASSIGN_OR_RETURN(std::vector<uint64_t> rounds, snapshots.List());
  TALLY_ASSIGN_OR_RETURN(LedgerView ledger, LedgerView::Open(ledger_folder, layout->digest()));
  return JobFiles{folder, *layout, std::move(snapshots), std::move(rounds), std::move(ledger)};
}

std::string WithoutFolder(const absl::Status& status, const std::string& folder) {
  return absl::StrReplaceAll(status.message(),
                             {{absl::StrCat(folder, "/"), ""}, {folder, "the job's folder"}});
}

absl::Status StatusWithoutFolder(const absl::Status& status, const std::string& folder) {
  return absl::Status(status.code(), WithoutFolder(status, folder));
}

}  // namespace tally
