#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"

namespace tally {
namespace {

// Its job, "free" or "drained"; a drained one may still be at a job.
std::string WorkText(const v1::WorkerInfo& worker) {
  if (!worker.drained()) return worker.job_id().empty() ? "free" : worker.job_id();
  return worker.job_id().empty() ? "drained" : absl::StrCat(worker.job_id(), " (drained)");
}

std::vector<std::string> Row(const v1::WorkerInfo& worker) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : worker.labels()) labels.push_back(absl::StrCat(key, "=", value));
  std::sort(labels.begin(), labels.end());
  return {worker.name(),
          worker.device(),
          WorkText(worker),
          worker.connected() ? ShortDuration(worker.heartbeat_age()) : "not connected",
          worker.address(),
          worker.version(),
          absl::StrJoin(worker.data_sets(), ","),
          absl::StrJoin(labels, ",")};
}

absl::Status Workers(Session& session) {
  TALLY_ASSIGN_OR_RETURN(
      const v1::ListWorkersResponse response,
      session.Call(&v1::JobService::Stub::ListWorkers, v1::ListWorkersRequest()));
  if (session.options().json) {
    session.out() << JsonLine(ToJson(response)["workers"]) << std::endl;
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::WorkerInfo& worker : response.workers()) rows.push_back(Row(worker));
  session.out() << Table(
      {"WORKER", "DEVICE", "JOB", "HEARTBEAT", "ADDRESS", "VERSION", "DATA", "LABELS"}, rows);
  return absl::OkStatus();
}

}  // namespace

void AddWorkers(CommandLine& line) {
  Session& session = line.session;
  CLI::App* command =
      AddCommand(line, "workers", "List the workers that are connected or drained", kAskTime,
                 [&session] { return Workers(session); });
  CommandLine below{*command, session, line.chosen};
  AddDrain(below);
  AddUndrain(below);
}

}  // namespace tally
