// Which job runs on whom: carries out what the scheduler plans.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/job/scheduler.h"
#include "server/job/store.h"
#include "server/supervisor/messages.h"
#include "server/supervisor/supervisor.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

// Places that may be given to another worker now. A job that has not begun only fills up to its
// count: it would wait for those that came to it.
uint32_t PlacesToGive(const v1::JobStatus& job, const JobRun& run) {
  const uint32_t open = run.open_places();
  if (job.held()) return 0;
  if (job.state() == v1::RUNNING || job.state() == v1::PAUSED) return open;
  if (job.state() != v1::WAITING) return 0;
  const std::vector<std::string> places = run.workers();
  return std::min(open, static_cast<uint32_t>(std::count(places.begin(), places.end(), "")));
}

}  // namespace

void Supervisor::Schedule() {
  absl::MutexLock scheduling(&scheduling_);
  const std::vector<QueuedJob> queue = registry_->Queue();
  const std::vector<KnownWorker> workers = KnownWorkers();
  const bool any_free = std::any_of(workers.begin(), workers.end(), [](const KnownWorker& worker) {
    return worker.use == WorkerUse::kFree;
  });
  const std::vector<OpenJob> open = any_free ? OpenJobs() : std::vector<OpenJob>();
  if (queue.empty() && open.empty()) return;
  const SchedulePlan plan = PlanSchedule(queue, open, workers);
  for (const JobWait& wait : plan.wait) registry_->ExplainWait(wait.job_id, wait.reason);
  for (const JobStart& start : plan.start) StartJob(start);
  for (const JobGrowth& growth : plan.grow) GrowJob(growth);
}

std::vector<KnownWorker> Supervisor::KnownWorkers() const {
  const std::map<std::string, std::string> drained = registry_->Drained();
  absl::MutexLock lock(&mutex_);
  std::vector<KnownWorker> known;
  for (const auto& [name, worker] : membership_.workers()) {
    known.push_back({worker.hello, drained.contains(name)    ? WorkerUse::kDrained
                                   : worker.job_id.empty() ? WorkerUse::kFree
                                                           : WorkerUse::kBusy});
  }
  return known;
}

std::vector<OpenJob> Supervisor::OpenJobs() const {
  std::map<uint64_t, std::shared_ptr<JobRun>> runs;  // by number: the order of submission
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [job_id, entry] : runs_) {
      const absl::StatusOr<uint64_t> number = JobNumberOf(job_id);
      if (number.ok() && entry.run->open_places() > 0) runs[*number] = entry.run;
    }
  }
  std::vector<OpenJob> open;
  for (const auto& [number, run] : runs) {
    const absl::StatusOr<v1::JobStatus> status = registry_->Get(run->job_id());
    if (!status.ok()) continue;
    const uint32_t places = PlacesToGive(*status, *run);
    if (places > 0) open.push_back({run->job_id(), status->spec(), places, UnwantedAt(run->job_id())});
  }
  return open;
}

std::set<std::string> Supervisor::UnwantedAt(const std::string& job_id) const {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> names;
  const auto entry = runs_.find(job_id);
  if (entry == runs_.end()) return names;
  for (const auto& [name, unwanted] : entry->second.unwanted) {
    const LiveWorker* worker = membership_.Find(name);
    const bool same = worker != nullptr && worker->hello.instance() == unwanted.instance;
    if (same && options_.clock->Steady() < unwanted.until) names.insert(name);
  }
  return names;
}

std::shared_ptr<SessionLink> Supervisor::Occupy(const std::string& worker,
                                                const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  membership_.Assign(worker, job_id);
  if (const auto entry = runs_.find(job_id); entry != runs_.end()) {
    entry->second.released.erase(worker);
  }
  const auto link = links_.find(worker);
  return link == links_.end() ? nullptr : link->second;
}

void Supervisor::StartJob(const JobStart& start) {
  if (const absl::Status assigned = registry_->Assign(start.job_id, start.workers);
      !assigned.ok()) {
    return spdlog::info("job {}: {}", start.job_id, std::string(assigned.message()));
  }
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(start.job_id);
  if (!status.ok()) return;
  if (const absl::Status opened = OpenRun({*status, start.workers, ""}); !opened.ok()) {
    (void)registry_->Transition(start.job_id, v1::FAILED, std::string(opened.message()));
    return;
  }
  for (size_t index = 0; index < start.workers.size(); ++index) {
    const std::shared_ptr<SessionLink> link = Occupy(start.workers[index], start.job_id);
    if (link != nullptr) link->Send(AssignmentMessage(*status, static_cast<uint32_t>(index)));
  }
}

void Supervisor::GrowJob(const JobGrowth& growth) {
  const absl::StatusOr<std::shared_ptr<JobRun>> run = FindRun(growth.job_id);
  if (!run.ok()) return;
  // On disk before the worker is told.
  if (const absl::StatusOr<uint32_t> index = (*run)->AddWorker(growth.worker); !index.ok()) {
    return spdlog::info("job {}: {}", growth.job_id, std::string(index.status().message()));
  }
  const std::shared_ptr<SessionLink> link = Occupy(growth.worker, growth.job_id);
  if (link != nullptr) SendAssignment(**run, growth.worker, *link);
}

void Supervisor::SendAssignment(const JobRun& run, const std::string& worker,
                                SessionLink& link) const {
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(run.job_id());
  const std::vector<std::string> workers = run.workers();
  const auto place = std::find(workers.begin(), workers.end(), worker);
  if (!status.ok() || place == workers.end()) return;
  link.Send(AssignmentMessage(*status, static_cast<uint32_t>(place - workers.begin())));
}

}  // namespace tally
