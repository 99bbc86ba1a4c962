#include <limits>
#include <utility>

#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

std::vector<std::string> Row(const v1::JobStatus& job) {
  return {job.job_id(),
          job.spec().name(),
          StateText(job),
          Rounds(job),
          Loss(job),
          Accuracy(job),
          job.state() == v1::RUNNING ? ShortDuration(job.seconds_left()) : "",
          ShortTime(job.submitted_at(), absl::LocalTimeZone())};
}

absl::Status List(Session& session) {
  TALLY_ASSIGN_OR_RETURN(const v1::ListJobsResponse response,
                         session.Call(&v1::JobService::Stub::ListJobs, v1::ListJobsRequest()));
  if (session.options().json) {
    session.out() << JsonLine(ToJson(response)["jobs"]) << std::endl;
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::JobStatus& job : response.jobs()) rows.push_back(Row(job));
  constexpr size_t kName = 1;
  const Console& console = session.console();
  session.out() << TableWithin(
      console.terminal ? console.width : std::numeric_limits<int>::max(), kName,
      {"JOB", "NAME", "STATE", "ROUND", "LOSS", "ACCURACY", "LEFT", "SUBMITTED"}, std::move(rows));
  return absl::OkStatus();
}

}  // namespace

void AddList(CommandLine& line) {
  Session& session = line.session;
  AddCommand(line, "list", "List all jobs, newest first", kAskTime,
             [&session] { return List(session); });
}

}  // namespace tally
