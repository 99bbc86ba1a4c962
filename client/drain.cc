#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"
#include "common/spec/without_worker.h"

namespace tally {
namespace {

constexpr absl::Duration kAskAgain = absl::Milliseconds(250);

std::string CheckWorkerName(const std::string& name) {
  const bool fit = !name.empty() && name.size() <= 64 &&
                   std::all_of(name.begin(), name.end(), [](unsigned char c) {
                     return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                   });
  return fit ? "" : "expected a worker's name, as `tally workers` shows it";
}

void AddNameArgument(CLI::App& command, std::string& name) {
  command.add_option("NAME", name, "The worker's name")->required()->check(CheckWorkerName);
}

// What it means for the job that the worker leaves; in words, since the job is asked for after that.
absl::StatusOr<std::string> MeaningFor(Session& session, const v1::WorkerInfo& worker) {
  v1::GetJobRequest request;
  request.set_job_id(worker.job_id());
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus job,
                         session.Call(&v1::JobService::Stub::GetJob, request));
  if (IsTerminal(job.state())) {
    return absl::StrCat(job.job_id(), " has ended: ", StateName(job.state()));
  }
  return WithoutWorker(job, worker.name());
}

absl::Status WaitUntilFree(Session& session, const std::string& name) {
  for (;;) {
    TALLY_ASSIGN_OR_RETURN(
        const v1::ListWorkersResponse response,
        session.Call(&v1::JobService::Stub::ListWorkers, v1::ListWorkersRequest()));
    const auto found = std::find_if(response.workers().begin(), response.workers().end(),
                                    [&](const auto& worker) { return worker.name() == name; });
    if (found == response.workers().end() || found->job_id().empty()) return absl::OkStatus();
    if (session.Expired()) return session.TimeIsOver();
    if (!session.interrupt().WaitFor(kAskAgain)) return absl::CancelledError("interrupted");
  }
}

absl::Status Drain(Session& session, const v1::DrainWorkerRequest& request, bool wait) {
  TALLY_ASSIGN_OR_RETURN(v1::WorkerInfo worker,
                         session.Call(&v1::JobService::Stub::DrainWorker, request));
  const std::string job_id = worker.job_id();
  const bool json = session.options().json;
  if (!json) {
    std::string meaning;
    if (!job_id.empty()) {
      TALLY_ASSIGN_OR_RETURN(meaning, MeaningFor(session, worker));
    }
    session.out() << worker.name() << " is drained and gets no new job"
                  << (meaning.empty() ? "" : "; " + Printable(meaning)) << std::endl;
  }
  if (wait) {
    TALLY_RETURN_IF_ERROR(WaitUntilFree(session, worker.name()));
    worker.clear_job_id();
    if (!json && !job_id.empty()) {
      session.out() << worker.name() << " has left " << job_id << std::endl;
    }
  }
  if (json) session.out() << JsonLine(ToJson(worker)) << std::endl;
  return absl::OkStatus();
}

absl::Status Undrain(Session& session, const v1::UndrainWorkerRequest& request) {
  TALLY_ASSIGN_OR_RETURN(const v1::WorkerInfo worker,
                         session.Call(&v1::JobService::Stub::UndrainWorker, request));
  if (session.options().json) {
    session.out() << JsonLine(ToJson(worker)) << std::endl;
  } else {
    session.out() << worker.name() << " takes jobs"
                  << (worker.connected() ? "" : " once it is connected") << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace

void AddDrain(CommandLine& workers) {
  auto request = std::make_shared<v1::DrainWorkerRequest>();
  auto wait = std::make_shared<bool>(false);
  Session& session = workers.session;
  // A round may last; without --wait one answer is enough.
  CLI::App* command = AddCommand(
      workers, "drain", "Give a worker no new job; it leaves its present one after the open round",
      absl::InfiniteDuration(),
      [&session, request, wait] { return Drain(session, *request, *wait); });
  AddNameArgument(*command, *request->mutable_name());
  command->add_option("--reason", *request->mutable_reason(), "Why, for the job's log");
  command->add_flag("--wait", *wait, "Return when the worker has no job any more");
}

void AddUndrain(CommandLine& workers) {
  auto request = std::make_shared<v1::UndrainWorkerRequest>();
  Session& session = workers.session;
  CLI::App* command = AddCommand(workers, "undrain", "Let a drained worker take jobs again",
                                 kAskTime,
                                 [&session, request] { return Undrain(session, *request); });
  AddNameArgument(*command, *request->mutable_name());
}

}  // namespace tally
