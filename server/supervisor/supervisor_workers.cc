// The supervisor's side of workers: sessions, heartbeats, and who is drained.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/spec/without_worker.h"
#include "server/job/text.h"
#include "server/supervisor/messages.h"
#include "server/supervisor/supervisor.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

// How long a worker that could not go on with a job is not given it again.
constexpr absl::Duration kUnwantedTime = absl::Minutes(5);

std::string DrainWords(const std::string& reason) {
  return absl::StrCat("drained by a person", reason.empty() ? "" : ": ", reason);
}

}  // namespace

absl::Status Supervisor::OnHello(const v1::Hello& hello, const std::string& address,
                                 std::shared_ptr<SessionLink> link) {
  std::shared_ptr<JobRun> run;
  std::shared_ptr<SessionLink> earlier;
  {
    absl::MutexLock lock(&mutex_);
    TALLY_RETURN_IF_ERROR(membership_.Join(hello, address, options_.clock->Steady(),
                                           options_.clock->Wall()));
    earlier = std::exchange(links_[hello.name()], link);
    // In the same breath: it must not be taken for free.
    run = RunOf(hello.name());
    if (run != nullptr) membership_.Assign(hello.name(), run->job_id());
  }
  if (earlier != nullptr) earlier->Close(absl::AbortedError("replaced by a newer session"));
  spdlog::info("worker {} joined from {} ({}, version {})", hello.name(), address, hello.device(),
               hello.version());
  link->Send(WelcomeMessage(options_.heartbeat));
  // A worker that comes back, after its own restart or the server's, takes its place again.
  if (run != nullptr) SendAssignment(*run, hello.name(), *link);
  Schedule();
  return absl::OkStatus();
}

absl::Status Supervisor::OnHeartbeat(const v1::Hello& hello, const v1::Heartbeat& heartbeat) {
  std::shared_ptr<JobRun> run;
  v1::LocalProgress progress;
  const auto tell = absl::MakeCleanup([&] {  // without the lock: a run may be busy
    if (run != nullptr) run->HearProgress(hello.name(), progress);
  });
  absl::MutexLock lock(&mutex_);
  if (!membership_.Heard(hello.name(), hello.instance(), options_.clock->Steady())) {
    return absl::UnavailableError(absl::StrCat("worker ", hello.name(), ": its lease has ended"));
  }
  // It is at no job, and what it was assigned is over: whatever became of its JobLeft, it is free.
  const std::string job_id = membership_.Find(hello.name())->job_id;
  const auto at = runs_.find(heartbeat.job_id());
  if (at != runs_.end() && heartbeat.job_id() == job_id) {
    run = at->second.run;
    progress = heartbeat.progress();
  }
  if (!heartbeat.job_id().empty() || job_id.empty()) return absl::OkStatus();
  const auto entry = runs_.find(job_id);
  if (entry == runs_.end() || !IsMember(*entry->second.run, hello.name())) {
    membership_.Assign(hello.name(), "");
  }
  return absl::OkStatus();
}

void Supervisor::OnEvent(const v1::Hello& hello, const v1::WorkerEvent& event) {
  const absl::Status added =
      registry_->AddEvent(event.job_id(), event.level(), hello.name(), event.message());
  if (!added.ok()) spdlog::warn("worker {}: {}", hello.name(), std::string(added.message()));
}

void Supervisor::OnLeft(const v1::Hello& hello, const v1::JobLeft& left) {
  std::shared_ptr<JobRun> run;  // that it has a place in
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = runs_.find(left.job_id());
    const bool member = entry != runs_.end() && !entry->second.run->ended() &&
                        IsMember(*entry->second.run, hello.name());
    if (member) run = entry->second.run;
    if (entry != runs_.end()) entry->second.released.erase(hello.name());
    // A member that leaves without a word of error makes way for a newer assignment of the same job.
    const LiveWorker* worker = membership_.Find(hello.name());
    const bool stays = member && left.error().empty();
    if (worker != nullptr && worker->job_id == left.job_id() && !stays) {
      membership_.Assign(hello.name(), "");
    }
  }
  if (!left.error().empty()) {
    (void)registry_->AddEvent(left.job_id(), run == nullptr ? "info" : "error", hello.name(),
                              left.error());
    if (run != nullptr) OnMemberFailed(hello, left, *run);
  }
  Schedule();
}

void Supervisor::OnMemberFailed(const v1::Hello& hello, const v1::JobLeft& left, JobRun& run) {
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(run.job_id());
  // Before the first round nothing is lost by saying at once what is wrong.
  if (left.fatal() || (status.ok() && status->state() == v1::WAITING)) {
    return run.Fail(absl::StrCat("worker ", hello.name(), ": ", left.error()));
  }
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = runs_.find(run.job_id());
    if (entry != runs_.end()) {
      entry->second.unwanted[hello.name()] = {hello.instance(),
                                              options_.clock->Steady() + kUnwantedTime};
    }
  }
  run.RemoveWorker(hello.name(), "it cannot go on");
}

void Supervisor::OnSessionEnd(const v1::Hello& hello, const SessionLink* link) {
  absl::MutexLock lock(&mutex_);
  const auto found = links_.find(hello.name());
  if (found == links_.end() || found->second.get() != link) return;
  links_.erase(found);
  membership_.Leave(hello.name(), hello.instance());
  spdlog::info("worker {} left", hello.name());
}

v1::WorkerInfo Supervisor::InfoOf(const LiveWorker& worker) const {
  v1::WorkerInfo info;
  info.set_name(worker.hello.name());
  info.set_version(worker.hello.version());
  info.set_device(worker.hello.device());
  for (const v1::DataSetInfo& data : worker.hello.data_sets()) info.add_data_sets(data.name());
  *info.mutable_labels() = worker.hello.labels();
  info.set_job_id(worker.job_id);
  info.set_heartbeat_age(absl::ToDoubleSeconds(options_.clock->Steady() - worker.last_heard));
  info.set_registered_at(absl::ToDoubleSeconds(worker.registered - absl::UnixEpoch()));
  info.set_address(worker.address);
  info.set_connected(true);
  return info;
}

std::vector<v1::WorkerInfo> Supervisor::Workers() const {
  const std::map<std::string, std::string> drained = registry_->Drained();
  std::map<std::string, v1::WorkerInfo> infos;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, worker] : membership_.workers()) infos[name] = InfoOf(worker);
  for (const auto& [name, reason] : drained) {
    v1::WorkerInfo& info = infos[name];
    info.set_name(name);
    info.set_drained(true);
    const std::shared_ptr<JobRun> run = info.connected() ? nullptr : RunOf(name);
    if (run != nullptr) info.set_job_id(run->job_id());
  }
  std::vector<v1::WorkerInfo> sorted;
  for (auto& [name, info] : infos) sorted.push_back(std::move(info));
  return sorted;
}

absl::StatusOr<v1::WorkerInfo> Supervisor::FindWorker(const std::string& worker) const {
  for (v1::WorkerInfo& info : Workers()) {
    if (info.name() == worker) return std::move(info);
  }
  return absl::NotFoundError(absl::StrCat("worker ", CleanText(worker, 64),
                                          ": neither connected nor drained; `tally workers` "
                                          "lists those that are"));
}

absl::StatusOr<v1::WorkerInfo> Supervisor::Drain(const std::string& worker,
                                                 const std::string& reason) {
  v1::WorkerInfo info;
  std::shared_ptr<JobRun> run;
  {
    absl::MutexLock scheduling(&scheduling_);
    TALLY_ASSIGN_OR_RETURN(info, FindWorker(worker));
    // A second word without a reason leaves the first one's.
    if (!info.drained() || !reason.empty()) {
      TALLY_RETURN_IF_ERROR(registry_->Drain(worker, reason));
    }
    absl::MutexLock lock(&mutex_);
    run = RunOf(worker);
  }
  if (!info.drained()) spdlog::info("worker {}: {}", worker, DrainWords(reason));
  info.set_drained(true);
  if (run == nullptr) return info;
  if (const absl::StatusOr<v1::JobStatus> job = registry_->Get(run->job_id()); job.ok()) {
    (void)registry_->AddEvent(run->job_id(), "info", worker,
                              absl::StrCat(DrainWords(reason), "; ", WithoutWorker(*job, worker)));
  }
  run->RemoveWorker(worker, "it is drained");
  return info;
}

absl::StatusOr<v1::WorkerInfo> Supervisor::Undrain(const std::string& worker) {
  TALLY_ASSIGN_OR_RETURN(v1::WorkerInfo info, FindWorker(worker));
  if (info.drained()) {
    TALLY_RETURN_IF_ERROR(registry_->Undrain(worker));
    spdlog::info("worker {}: no longer drained", worker);
    Schedule();
  }
  info.set_drained(false);
  return info;
}

}  // namespace tally
