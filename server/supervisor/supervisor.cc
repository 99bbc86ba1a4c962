#include "server/supervisor/supervisor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/spec/check.h"
#include "common/spec/defaults.h"
#include "server/job/states.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kSaveInterval = absl::Seconds(2);
constexpr int kLeaseHeartbeats = 4;

v1::SessionDown ReleaseMessage(const std::string& job_id, const std::string& reason) {
  v1::SessionDown down;
  down.mutable_release()->set_job_id(job_id);
  down.mutable_release()->set_reason(reason);
  return down;
}

v1::SessionDown AssignmentMessage(const std::string& job_id, const v1::JobSpec& spec,
                                  uint32_t index, size_t count) {
  v1::SessionDown down;
  v1::Assignment* assignment = down.mutable_assignment();
  assignment->set_job_id(job_id);
  *assignment->mutable_spec() = spec;
  assignment->set_index(index);
  assignment->set_count(static_cast<uint32_t>(count));
  return down;
}

}  // namespace

// Carries a run's news to the registry, the metrics and the log.
class Supervisor::Observer final : public JobObserver {
 public:
  Observer(std::string job_id, JobRegistry* registry, Metrics* metrics)
      : job_id_(std::move(job_id)), registry_(registry), metrics_(metrics) {}

  void OnState(v1::JobState state, const std::string& reason) override {
    absl::MutexLock lock(&mutex_);
    LogState(state, reason);
    Tell(state, reason);
  }
  // False while the registry could not write the run's state; to be called now and then.
  bool TellAgain() {
    absl::MutexLock lock(&mutex_);
    if (untold_.has_value()) Tell(untold_->first, std::string(untold_->second));
    return !untold_.has_value();
  }
  void OnEvent(const std::string& level, const std::string& worker,
               const std::string& message) override {
    if (const absl::Status added = registry_->AddEvent(job_id_, level, worker, message);
        !added.ok()) {
      spdlog::error("job {}: an event is lost: {}", job_id_, std::string(added.message()));
    }
  }
  void OnProgress(const std::function<void(v1::JobStatus&)>& change) override {
    registry_->UpdateProgress(job_id_, change);
  }
  void OnRoundClosed(absl::Duration duration, uint64_t contribution_bytes,
                     uint64_t aggregate_bytes) override {
    metrics_->RoundClosed(duration);
    metrics_->ContributionBytes(contribution_bytes);
    metrics_->AggregateBytes(aggregate_bytes);
  }
  void OnRefused(const std::string& kind) override { metrics_->Refused(kind); }
  void OnWorkers(const std::vector<std::string>&) override {}

 private:
  // FAILED_PRECONDITION is final: the registry's state is terminal, by a user's word.
  // Before the state is told, so that who follows the log to a job's end reads it. A cancellation is
  // logged by Supervisor::Cancel, also for jobs without a run.
  void LogState(v1::JobState state, const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool changed = std::exchange(logged_, state) != state;
    if (!changed || state == v1::CANCELLED) return;
    const char* level = state == v1::FAILED ? "error" : state == v1::PAUSED ? "warning" : "info";
    const std::string name(JobStateName(state));
    OnEvent(level, "", reason.empty() ? name : absl::StrCat(name, ": ", reason));
  }
  void Tell(v1::JobState state, const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Status moved = registry_->Transition(job_id_, state, reason);
    untold_.reset();
    if (moved.ok() || absl::IsFailedPrecondition(moved)) return;
    spdlog::error("job {}: its state is not written: {}", job_id_, std::string(moved.message()));
    untold_ = {state, reason};
  }

  const std::string job_id_;
  JobRegistry* const registry_;
  Metrics* const metrics_;
  absl::Mutex mutex_;  // taken after the run's lock, before the registry's
  std::optional<std::pair<v1::JobState, std::string>> untold_ ABSL_GUARDED_BY(mutex_);
  v1::JobState logged_ ABSL_GUARDED_BY(mutex_) = v1::JOB_STATE_UNSPECIFIED;
};

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
  supervisor->timer_ = std::thread([self = supervisor.get()] {
    for (;;) {
      {
        absl::MutexLock lock(&self->mutex_);
        if (self->mutex_.AwaitWithTimeout(absl::Condition(&self->stopping_), kTick)) return;
      }
      self->Tick();
    }
  });
  return supervisor;
}

Supervisor::~Supervisor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  timer_.join();
  if (const absl::Status saved = registry_->SaveProgress(); !saved.ok()) {
    spdlog::error("saving progress: {}", std::string(saved.message()));
  }
}

std::string Supervisor::FolderOf(const std::string& job_id) const {
  return absl::StrCat(options_.state_dir, "/jobs/", job_id);
}

void Supervisor::ResumeUnfinished() {
  for (const UnfinishedJob& job : registry_->Unfinished()) {
    if (const absl::Status opened = OpenRun(job.job_id, job.spec, job.workers); !opened.ok()) {
      (void)registry_->Transition(job.job_id, v1::FAILED,
                                  absl::StrCat("after a restart: ", opened.message()));
      continue;
    }
    (void)registry_->AddEvent(job.job_id, "info", "", "the server was restarted; the job goes on");
  }
}

absl::Status Supervisor::OpenRun(const std::string& job_id, const v1::JobSpec& spec,
                                 const std::vector<std::string>& workers) {
  auto observer = std::make_shared<Observer>(job_id, registry_, metrics_);
  JobRunOptions options;
  options.job_id = job_id;
  options.spec = spec;
  options.folder = FolderOf(job_id);
  options.workers = workers;
  options.strict_durability = options_.strict_durability;
  options.clock = options_.clock;
  TALLY_ASSIGN_OR_RETURN(std::shared_ptr<JobRun> run,
                         JobRun::Open(std::move(options), observer));
  {
    absl::MutexLock lock(&mutex_);
    runs_[job_id] = {std::move(observer), run};
  }
  // Cancelled before the run was there to be told.
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(job_id);
  if (status.ok() && IsTerminal(status->state())) run->Cancel(status->reason());
  return absl::OkStatus();
}

absl::Status Supervisor::OnHello(const v1::Hello& hello, const std::string& address,
                                 std::shared_ptr<SessionLink> link) {
  v1::SessionDown welcome;
  welcome.mutable_welcome()->set_heartbeat_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(options_.heartbeat)));
  welcome.mutable_welcome()->set_server_version(TALLY_VERSION);
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
  link->Send(std::move(welcome));
  if (run != nullptr) SendAssignment(*run, hello.name(), *link);
  Schedule();
  return absl::OkStatus();
}

std::shared_ptr<JobRun> Supervisor::RunOf(const std::string& worker) const {
  for (const auto& [job_id, entry] : runs_) {
    const std::vector<std::string>& workers = entry.run->workers();
    if (entry.run->ended()) continue;
    if (std::find(workers.begin(), workers.end(), worker) != workers.end()) return entry.run;
  }
  return nullptr;
}

// A worker that comes back, after its own restart or the server's, takes its place again.
void Supervisor::SendAssignment(const JobRun& run, const std::string& worker,
                                SessionLink& link) const {
  const absl::StatusOr<v1::JobStatus> status = registry_->Get(run.job_id());
  if (!status.ok()) return;
  const std::vector<std::string>& workers = run.workers();
  const auto index = static_cast<uint32_t>(
      std::find(workers.begin(), workers.end(), worker) - workers.begin());
  link.Send(AssignmentMessage(run.job_id(), status->spec(), index, workers.size()));
}

absl::Status Supervisor::OnHeartbeat(const v1::Hello& hello, const v1::Heartbeat& heartbeat) {
  absl::MutexLock lock(&mutex_);
  if (!membership_.Heard(hello.name(), hello.instance(), options_.clock->Steady())) {
    return absl::UnavailableError(absl::StrCat("worker ", hello.name(), ": its lease has ended"));
  }
  // It is at no job, and what it was assigned is over: whatever became of its JobLeft, it is free.
  const std::string job_id = membership_.Find(hello.name())->job_id;
  if (heartbeat.job_id().empty() && !job_id.empty() && runs_.count(job_id) == 0) {
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
  {
    absl::MutexLock lock(&mutex_);
    const LiveWorker* worker = membership_.Find(hello.name());
    if (worker != nullptr && worker->job_id == left.job_id()) membership_.Assign(hello.name(), "");
  }
  if (!left.error().empty()) {
    const std::string message = absl::StrCat("worker ", hello.name(), ": ", left.error());
    (void)registry_->AddEvent(left.job_id(), "error", hello.name(), left.error());
    const absl::StatusOr<v1::JobStatus> status = registry_->Get(left.job_id());
    const absl::StatusOr<std::shared_ptr<JobRun>> run = FindRun(left.job_id());
    // Before the first round nothing is lost by saying at once what is wrong.
    const bool waiting = status.ok() && status->state() == v1::WAITING;
    if (run.ok() && (left.fatal() || waiting)) (*run)->Fail(message);
  }
  Schedule();
}

void Supervisor::OnSessionEnd(const v1::Hello& hello, const SessionLink* link) {
  absl::MutexLock lock(&mutex_);
  const auto found = links_.find(hello.name());
  if (found == links_.end() || found->second.get() != link) return;
  links_.erase(found);
  membership_.Leave(hello.name(), hello.instance());
  spdlog::info("worker {} left", hello.name());
}

std::vector<v1::WorkerInfo> Supervisor::Workers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::WorkerInfo> infos;
  for (const auto& [name, worker] : membership_.workers()) {
    v1::WorkerInfo info;
    info.set_name(name);
    info.set_version(worker.hello.version());
    info.set_device(worker.hello.device());
    for (const v1::DataSetInfo& data : worker.hello.data_sets()) info.add_data_sets(data.name());
    *info.mutable_labels() = worker.hello.labels();
    info.set_job_id(worker.job_id);
    info.set_heartbeat_age(
        absl::ToDoubleSeconds(options_.clock->Steady() - worker.last_heard));
    info.set_registered_at(absl::ToDoubleSeconds(worker.registered - absl::UnixEpoch()));
    info.set_address(worker.address);
    infos.push_back(std::move(info));
  }
  return infos;
}

absl::StatusOr<JobRegistry::Submitted> Supervisor::Submit(const v1::JobSpec& given,
                                                          const std::string& token) {
  v1::JobSpec spec = WithDefaults(given);
  TALLY_RETURN_IF_ERROR(CheckJobSpec(spec));
  if (!spec.model().base_digest().empty()) {
    TALLY_ASSIGN_OR_RETURN(const std::string base, models_->Find(spec.model().base_digest()));
    // Every worker builds the model from the job alone.
    if (spec.model().config_json().empty()) {
      TALLY_ASSIGN_OR_RETURN(*spec.mutable_model()->mutable_config_json(),
                             ReadFile(absl::StrCat(base, "/config.json")));
    }
  }
  TALLY_ASSIGN_OR_RETURN(const JobRegistry::Submitted submitted, registry_->Submit(spec, token));
  if (submitted.created) {
    metrics_->JobSubmitted();
    Schedule();
  }
  return submitted;
}

absl::StatusOr<v1::JobStatus> Supervisor::Cancel(const std::string& job_id,
                                                 const std::string& reason) {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus status, registry_->Get(job_id));
  if (!IsTerminal(status.state())) {
    TALLY_RETURN_IF_ERROR(
        registry_->AddEvent(job_id, "info", "", absl::StrCat("CANCELLED: ", reason)));
  }
  TALLY_RETURN_IF_ERROR(registry_->Transition(job_id, v1::CANCELLED, reason));
  if (const absl::StatusOr<std::shared_ptr<JobRun>> run = FindRun(job_id); run.ok()) {
    (*run)->Cancel(reason);
  }
  return registry_->Get(job_id);
}

absl::StatusOr<std::shared_ptr<JobRun>> Supervisor::FindRun(const std::string& job_id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = runs_.find(job_id);
  if (found != runs_.end()) return found->second.run;
  return absl::NotFoundError(absl::StrCat("job ", job_id, " is not being run"));
}

absl::StatusOr<std::string> Supervisor::ResultFolder(const std::string& job_id) const {
  TALLY_ASSIGN_OR_RETURN(const v1::JobStatus status, registry_->Get(job_id));
  if (status.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " is ", std::string(JobStateName(status.state())),
                     ": only a job that SUCCEEDED has a result"));
  }
  TALLY_ASSIGN_OR_RETURN(const std::string bytes,
                         ReadFile(absl::StrCat(FolderOf(job_id), "/layout.pb")));
  v1::LayoutProto proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("layout.pb: not a layout");
  TALLY_ASSIGN_OR_RETURN(Layout layout, Layout::FromProto(proto));
  TALLY_ASSIGN_OR_RETURN(
      const SnapshotStore snapshots,
      SnapshotStore::Open(absl::StrCat(FolderOf(job_id), "/snapshots"), std::move(layout)));
  TALLY_ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> last, snapshots.Latest());
  return last->path();
}

std::vector<v1::Hello> Supervisor::FreeWorkers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::Hello> free;
  for (const auto& [name, worker] : membership_.workers()) {
    if (worker.job_id.empty()) free.push_back(worker.hello);
  }
  return free;
}

void Supervisor::Schedule() {
  absl::MutexLock scheduling(&scheduling_);
  const std::vector<QueuedJob> queue = registry_->Queue();
  if (queue.empty()) return;
  const SchedulePlan plan = PlanSchedule(queue, FreeWorkers());
  for (const JobWait& wait : plan.wait) registry_->ExplainWait(wait.job_id, wait.reason);
  for (const JobStart& start : plan.start) {
    for (const QueuedJob& job : queue) {
      if (job.job_id == start.job_id) StartJob(start, job.spec);
    }
  }
}

void Supervisor::StartJob(const JobStart& start, const v1::JobSpec& spec) {
  if (const absl::Status assigned = registry_->Assign(start.job_id, start.workers);
      !assigned.ok()) {
    return spdlog::info("job {}: {}", start.job_id, std::string(assigned.message()));
  }
  if (const absl::Status opened = OpenRun(start.job_id, spec, start.workers); !opened.ok()) {
    (void)registry_->Transition(start.job_id, v1::FAILED, std::string(opened.message()));
    return;
  }
  AnnounceAssignment(start.job_id, spec, start.workers);
}

void Supervisor::AnnounceAssignment(const std::string& job_id, const v1::JobSpec& spec,
                                    const std::vector<std::string>& workers) {
  std::vector<Message> messages;
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < workers.size(); ++i) {
      membership_.Assign(workers[i], job_id);
      const auto link = links_.find(workers[i]);
      if (link == links_.end()) continue;  // gone this moment; it is assigned when it is back
      messages.push_back({link->second, AssignmentMessage(job_id, spec, static_cast<uint32_t>(i),
                                                          workers.size())});
    }
  }
  for (Message& message : messages) message.link->Send(std::move(message.down));
}

void Supervisor::Tick() {
  ExpireLeases();
  std::vector<std::shared_ptr<JobRun>> runs;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [job_id, entry] : runs_) runs.push_back(entry.run);
  }
  for (const std::shared_ptr<JobRun>& run : runs) run->OnTimer();
  ReleaseEnded();
  Schedule();
  if (options_.clock->Steady() - saved_at_ < kSaveInterval) return;
  saved_at_ = options_.clock->Steady();
  if (const absl::Status saved = registry_->SaveProgress(); !saved.ok()) {
    spdlog::error("saving progress: {}", std::string(saved.message()));
  }
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

// Runs that have ended go; their workers are told, in case their stream was not there to be.
void Supervisor::ReleaseEnded() {
  std::vector<Message> messages;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = runs_.begin(); it != runs_.end();) {
      if (!it->second.run->ended() || !it->second.observer->TellAgain()) {
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
