#include "server/supervisor/job_folder.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/layout/layout.h"
#include "server/ledger/snapshot.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

absl::StatusOr<std::string> LastSnapshot(const std::string& folder) {
  TALLY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(absl::StrCat(folder, "/layout.pb")));
  v1::LayoutProto proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("layout.pb: not a layout");
  TALLY_ASSIGN_OR_RETURN(Layout layout, Layout::FromProto(proto));
  const SnapshotStore snapshots =
      SnapshotStore::OpenToRead(absl::StrCat(folder, "/snapshots"), std::move(layout));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> last, snapshots.Latest());
  return last->path();
}

// An empty folder is none. One that cannot be read is not gone: opening it will say what is wrong.
bool IsThere(const std::string& path) {
  std::error_code unreadable;
  if (!std::filesystem::exists(path, unreadable)) return static_cast<bool>(unreadable);
  return !std::filesystem::is_empty(path, unreadable) || unreadable;
}

}  // namespace

absl::Status CheckNotLost(const v1::JobStatus& job, const std::string& folder) {
  std::error_code unreadable;
  if (job.round() == 0 && job.started_at() == 0) return absl::OkStatus();
  for (const char* part : {"/layout.pb", "/snapshots", "/ledger"}) {
    // Between the first round's opening and its end the ledger is there and empty.
    if (job.round() == 0 && std::filesystem::is_directory(absl::StrCat(folder, part), unreadable)) {
      continue;
    }
    if (IsThere(absl::StrCat(folder, part))) continue;
    return absl::NotFoundError(absl::StrCat(
        "its ", part + 1, " is gone from the server's state directory, and with it the model after ",
        "round ", job.round(), "; submit the job again to begin anew"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ResultIn(const std::string& job_id, const std::string& folder) {
  if (!IsThere(folder)) {
    return absl::NotFoundError(absl::StrCat(
        job_id, ": its model is gone: the job's folder was deleted on the server"));
  }
  absl::StatusOr<std::string> last = LastSnapshot(folder);
  if (last.ok()) return last;
  spdlog::error("job {}: reading its result: {}", job_id, std::string(last.status().message()));
  return absl::DataLossError(
      absl::StrCat(job_id, ": its model cannot be read; the server's log says why"));
}

}  // namespace tally
