#include "client/watcher.h"

#include "absl/strings/str_cat.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

// Statuses that passed, and the last of them.
struct Seen {
  bool any = false;
  v1::JobStatus last;
};

// One stream; OK when the server ended it.
absl::Status FollowOnce(Session& session, const std::string& job_id, StatusView& view,
                        Backoff& backoff, Seen& seen) {
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  const auto reader = session.stub().WatchJob(&context, request);
  v1::JobStatus job;
  while (reader->Read(&job)) {
    view.Show(job);
    backoff.Reset();
    seen = {.any = true, .last = job};
  }
  return session.ServerError(reader->Finish());
}

absl::Status Outcome(const v1::JobStatus& job) {
  if (job.state() == v1::SUCCEEDED) return absl::OkStatus();
  const std::string reason = Printable(job.reason());
  return absl::AbortedError(absl::StrCat(job.job_id(), " ", StateName(job.state()),
                                         reason.empty() ? "" : ": ", reason));
}

}  // namespace

absl::StatusOr<v1::JobStatus> FollowJob(Session& session, const std::string& job_id,
                                        StatusView& view) {
  Backoff backoff = CommandBackoff();
  Seen seen;
  while (true) {
    const absl::Status status = FollowOnce(session, job_id, view, backoff, seen);
    if (seen.any && IsTerminal(seen.last.state())) return seen.last;
    const bool lost = status.ok() || absl::IsUnavailable(status);
    if (!lost || (!status.ok() && !seen.any)) return status;
    if (session.Expired()) return session.TimeIsOver();
    const absl::string_view why = status.ok() ? "the server ended the stream" : status.message();
    view.Notice(absl::StrCat("connection lost, trying again: ", why));
    if (!session.interrupt().WaitFor(backoff.Next())) return absl::CancelledError("interrupted");
  }
}

absl::Status WatchToTheEnd(Session& session, const std::string& job_id) {
  const std::unique_ptr<StatusView> view = MakeStatusView(session);
  const absl::StatusOr<v1::JobStatus> last = FollowJob(session, job_id, *view);
  if (absl::IsCancelled(last.status()) || absl::IsDeadlineExceeded(last.status())) {
    view->Notice(absl::StrCat("the job goes on; `tally watch ", job_id,
                              "` shows it again, `tally cancel ", job_id, "` ends it"));
  }
  TALLY_RETURN_IF_ERROR(last.status());
  return Outcome(*last);
}

}  // namespace tally
