#include "server/supervisor/supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "server/job/states.h"
#include "server/supervisor/job_folder.h"
#include "server/supervisor/messages.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kSaveInterval = absl::Seconds(2);
constexpr int kLeaseHeartbeats = 4;

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, JobRegistry* registry, ModelStore* models,
                       Metrics* metrics)
    : options_(std::move(options)),
      registry_(registry),
      models_(models),
      metrics_(metrics),
      membership_(options_.heartbeat * kLeaseHeartbeats) {}

std::unique_ptr<Supervisor> Supervisor::Start(SupervisorOptions options, JobRegistry* registry,
                                              ModelStore* models, Metrics* metrics) {
  std::unique_ptr<Supervisor> supervisor(
      new Supervisor(std::move(options), registry, models, metrics));
  supervisor->ResumeUnfinished();
  supervisor->timer_ = std::thread([self = supervisor.get()] { self->MakeTimePass(); });
  supervisor->saver_ = std::thread([self = supervisor.get()] { self->KeepSaving(); });
  return supervisor;
}

Supervisor::~Supervisor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  timer_.join();
  saver_.join();
}

void Supervisor::MakeTimePass() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) return;
    }
    Tick();
  }
}

void Supervisor::KeepSaving() {
  for (bool stopping = false; !stopping;) {
    {
      absl::MutexLock lock(&mutex_);
      stopping = mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kSaveInterval);
    }
    if (const absl::Status saved = registry_->SaveProgress(); !saved.ok()) {
      spdlog::error("saving progress: {}", std::string(saved.message()));
    }
  }
}

std::string Supervisor::FolderOf(const std::string& job_id) const {
  return absl::StrCat(options_.state_dir, "/jobs/", job_id);
}

void Supervisor::ResumeUnfinished() {
  for (const UnfinishedJob& job : registry_->Unfinished()) {
    const std::string& job_id = job.status.job_id();
    if (const absl::Status resumed = TakeUp(job); !resumed.ok()) {
      const std::string reason = absl::StrCat("after a restart: ", resumed.message());
      (void)registry_->AddEvent(job_id, "error", "", absl::StrCat("FAILED: ", reason));
      (void)registry_->Transition(job_id, v1::FAILED, reason);
      continue;
    }
    (void)registry_->AddEvent(job_id, "info", "", "the server was restarted; the job goes on");
  }
}

absl::Status Supervisor::TakeUp(const UnfinishedJob& job) {
  TALLY_RETURN_IF_ERROR(CheckNotLost(job.status, FolderOf(job.status.job_id())));
  TALLY_RETURN_IF_ERROR(OpenRun(job));
  // One that was drained just before the crash.
  const std::map<std::string, std::string> drained = registry_->Drained();
  TALLY_ASSIGN_OR_RETURN(const std::shared_ptr<JobRun> run, FindRun(job.status.job_id()));
  for (const std::string& worker : job.workers) {
    if (drained.contains(worker)) run->RemoveWorker(worker, "it is drained");
  }
  return absl::OkStatus();
}

absl::Status Supervisor::OpenRun(const UnfinishedJob& job) {
  const std::string& job_id = job.status.job_id();
  auto observer = std::make_shared<RunObserver>(job_id, registry_, metrics_);
  JobRunOptions options;
  options.job_id = job_id;
  options.spec = job.status.spec();
  options.folder = FolderOf(job_id);
  options.workers = job.workers;
  options.held = job.status.held();
  options.held_reason = job.held_reason;
  options.strict_durability = options_.strict_durability;
  options.keep = options_.keep;
  options.clock = options_.clock;
  TALLY_ASSIGN_OR_RETURN(std::shared_ptr<JobRun> run,
                         JobRun::Open(std::move(options), observer));
  const absl::Duration replace_after = absl::Milliseconds(
      static_cast<int64_t>(job.status.spec().workers().replace_after_ms()));
  {
    absl::MutexLock lock(&mutex_);
    runs_.insert_or_assign(job_id, Run{std::move(observer), run, replace_after});
  }
  // Cancelled before the run was there to be told.
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(job_id);
  if (status.ok() && IsTerminal(status->state())) run->Cancel(status->reason());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<JobRun>> Supervisor::FindRun(const std::string& job_id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = runs_.find(job_id);
  if (found != runs_.end()) return found->second.run;
  return absl::NotFoundError(absl::StrCat("job ", job_id, " is not being run"));
}

std::shared_ptr<JobRun> Supervisor::RunOf(const std::string& worker) const {
  for (const auto& [job_id, entry] : runs_) {
    if (!entry.run->ended() && IsMember(*entry.run, worker)) return entry.run;
  }
  return nullptr;
}

bool Supervisor::IsMember(const JobRun& run, const std::string& worker) {
  const std::vector<std::string> workers = run.workers();
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

void Supervisor::Tick() {
  ExpireLeases();
  std::vector<std::shared_ptr<JobRun>> runs;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [job_id, entry] : runs_) runs.push_back(entry.run);
  }
  for (const std::shared_ptr<JobRun>& run : runs) run->OnTimer();
  VacateAbsent();
  ReleaseFormer();
  ReleaseEnded();
  Schedule();
}

void Supervisor::ExpireLeases() {
  std::vector<std::pair<std::string, std::shared_ptr<SessionLink>>> gone;
  std::vector<std::pair<std::shared_ptr<JobRun>, std::string>> lost;
  {
    absl::MutexLock lock(&mutex_);
    for (const LiveWorker& worker : membership_.Expire(options_.clock->Steady())) {
      const std::string& name = worker.hello.name();
      gone.emplace_back(name, links_[name]);
      links_.erase(name);
      const auto run = runs_.find(worker.job_id);
      if (run != runs_.end()) lost.emplace_back(run->second.run, name);
    }
  }
  for (const auto& [name, link] : gone) {
    spdlog::warn("worker {}: no heartbeat; its lease has ended", name);
    if (link != nullptr) link->Close(absl::UnavailableError("no heartbeat; the lease has ended"));
  }
  for (const auto& [run, name] : lost) run->Drop(name);
}

void Supervisor::VacateAbsent() {
  std::vector<Leaver> leavers;
  {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [this](const std::string& worker)
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                return membership_.Find(worker) != nullptr;
                              };
    for (auto& [job_id, entry] : runs_) {
      for (const std::string& worker :
           entry.absences.Overdue(entry.run->workers(), is_there, options_.clock->Steady(),
                                  entry.replace_after)) {
        leavers.push_back({entry.run, worker,
                           absl::StrCat("gone for ", absl::FormatDuration(entry.replace_after),
                                        ", another worker may have its place")});
      }
    }
  }
  for (const Leaver& leaver : leavers) leaver.run->RemoveWorker(leaver.worker, leaver.reason);
}

// Workers that are at a job which they are no longer a member of; they stay busy until they say that
// they have left.
void Supervisor::ReleaseFormer() {
  std::vector<Message> messages;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, worker] : membership_.workers()) {
      const auto entry = runs_.find(worker.job_id);
      const auto link = links_.find(name);
      if (entry == runs_.end() || link == links_.end() || IsMember(*entry->second.run, name)) {
        continue;
      }
      if (!entry->second.released.insert(name).second) continue;
      messages.push_back({link->second, ReleaseMessage(entry->first, "its place is given up")});
    }
  }
  for (Message& message : messages) message.link->Send(std::move(message.down));
}

// Runs that have ended, with everything they said written down. Without the lock, for the disk's sake.
std::set<std::string> Supervisor::JobsDone() {
  std::map<std::string, std::pair<std::shared_ptr<JobRun>, std::shared_ptr<RunObserver>>> runs;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [job_id, entry] : runs_) runs[job_id] = {entry.run, entry.observer};
  }
  std::set<std::string> done;
  for (const auto& [job_id, run] : runs) {
    const bool ended = run.first->ended();  // before its last words are asked for
    if (run.second->TellAgain() && ended) done.insert(job_id);
  }
  return done;
}

// Runs that have ended go; their workers are told, in case their stream was not there to be.
void Supervisor::ReleaseEnded() {
  const std::set<std::string> done = JobsDone();
  std::vector<Message> messages;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = runs_.begin(); it != runs_.end();) {
      if (!done.contains(it->first)) {
        ++it;
        continue;
      }
      for (const std::string& name : it->second.run->workers()) {
        const auto link = links_.find(name);
        if (link == links_.end()) continue;
        messages.push_back({link->second, ReleaseMessage(it->first, "the job has ended")});
      }
      it = runs_.erase(it);
    }
  }
  for (Message& message : messages) message.link->Send(std::move(message.down));
}

}  // namespace tally
