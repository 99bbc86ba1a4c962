// Following a job to its end, also over a restart of the server.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/session.h"
#include "proto/tally/v1/job.pb.h"

namespace tally {

// Shows statuses as they come.
class StatusView {
 public:
  virtual ~StatusView() = default;
  virtual void Show(const v1::JobStatus& job) = 0;
  // A message in between; goes to standard error.
  virtual void Notice(absl::string_view message) = 0;
};

// JSON lines, one redrawn line on a terminal, or lines for notable changes.
std::unique_ptr<StatusView> MakeStatusView(Session& session);

// Returns the terminal status. A lost connection is taken up again until the command's time is
// over, unless there never was one. CANCELLED after Ctrl-C: the job goes on.
absl::StatusOr<v1::JobStatus> FollowJob(Session& session, const std::string& job_id,
                                        StatusView& view);

// FollowJob with the view that fits, and the outcome as a status: OK for a job that succeeded,
// ABORTED with its reason otherwise. Says after Ctrl-C that the job goes on.
absl::Status WatchToTheEnd(Session& session, const std::string& job_id);

}  // namespace tally
