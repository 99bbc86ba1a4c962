#include "server/job/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/spec/check.h"
#include "server/job/states.h"
#include "server/job/text.h"

namespace tally {
namespace {

constexpr size_t kTextBytes = 4096;

spdlog::level::level_enum LogLevel(const std::string& level) {
  if (level == "error") return spdlog::level::err;
  return level == "warning" ? spdlog::level::warn : spdlog::level::info;
}

absl::Status NoSuchJob(const std::string& job_id) {
  return absl::NotFoundError(absl::StrCat(CleanText(job_id, 64), ": no such job"));
}

// What only a server that runs the job can know.
void ForgetLiveState(v1::JobStatus& status) {
  for (v1::JobWorker& worker : *status.mutable_workers()) worker.set_attached(false);
}

// What a place has done stays when its worker changes.
void SetWorkers(const std::vector<std::string>& names, v1::JobStatus& status) {
  for (size_t index = 0; index < names.size(); ++index) {
    const auto at = static_cast<int>(index);
    v1::JobWorker* worker =
        at < status.workers_size() ? status.mutable_workers(at) : status.add_workers();
    worker->set_name(names[index]);
    worker->set_index(static_cast<uint32_t>(index));
  }
}

absl::Status CheckHold(const v1::JobStatus& now, bool held) {
  const std::string state(JobStateName(now.state()));
  if (IsTerminal(now.state())) {
    return absl::FailedPreconditionError(absl::StrCat(now.job_id(), " has ended: ", state));
  }
  if (!held || now.state() != v1::FINALIZING) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(now.job_id(), " is ", state, ": its rounds are done"));
}

// Of a job in the queue; the others' is the run's.
std::string HeldWait(const std::string& reason) {
  return absl::StrCat("held by a person", reason.empty() ? "" : ": ", reason);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobRegistry>> JobRegistry::Open(const std::string& state_dir,
                                                               const Clock* clock) {
  TALLY_ASSIGN_OR_RETURN(std::unique_ptr<JobStore> store, JobStore::Open(state_dir));
  std::unique_ptr<JobRegistry> registry(new JobRegistry(std::move(store), clock));
  TALLY_RETURN_IF_ERROR(registry->LoadJobs());
  return registry;
}

absl::Status JobRegistry::LoadJobs() {
  TALLY_ASSIGN_OR_RETURN(std::vector<StoredJob> stored, store_->Load());
  TALLY_ASSIGN_OR_RETURN(auto drained, store_->LoadDrained());
  absl::MutexLock lock(&mutex_);
  drained_ = std::move(drained);
  for (StoredJob& job : stored) {
    TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(job.status.job_id()));
    ForgetLiveState(job.status);
    jobs_[number] = {std::move(job.status), std::move(job.workers), std::move(job.held_reason)};
  }
  return absl::OkStatus();
}

double JobRegistry::Now() const { return absl::ToDoubleSeconds(clock_->Wall() - absl::UnixEpoch()); }

absl::StatusOr<uint64_t> JobRegistry::NumberOf(const std::string& job_id) const {
  const absl::StatusOr<uint64_t> number = JobNumberOf(job_id);
  if (!number.ok() || !jobs_.contains(*number)) return NoSuchJob(job_id);
  return number;
}

uint32_t JobRegistry::QueuePosition(uint64_t number) const {
  if (jobs_.at(number).status.state() != v1::PENDING) return 0;
  return static_cast<uint32_t>(
      std::count_if(jobs_.begin(), jobs_.upper_bound(number),
                    [](const auto& entry) { return entry.second.status.state() == v1::PENDING; }));
}

v1::JobStatus JobRegistry::StatusOf(uint64_t number) const {
  v1::JobStatus status = jobs_.at(number).status;
  status.set_queue_position(QueuePosition(number));
  return status;
}

absl::StatusOr<JobRegistry::Submitted> JobRegistry::Submit(const v1::JobSpec& spec,
                                                           const std::string& token) {
  if (!IsToken(token)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token: expected 1 to 64 characters of [A-Za-z0-9_-], found \"",
                     CleanText(token, 64), "\""));
  }
  absl::MutexLock submitting(&transitions_);
  v1::JobStatus status;
  *status.mutable_spec() = spec;
  status.set_state(v1::PENDING);
  status.set_submitted_at(Now());
  status.set_seconds_left(-1);
  TALLY_ASSIGN_OR_RETURN(Submitted submitted, store_->Insert(spec, token, status.submitted_at()));
  if (!submitted.created) return submitted;
  status.set_job_id(submitted.job_id);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, JobNumberOf(submitted.job_id));
  absl::MutexLock lock(&mutex_);
  jobs_[number].status = std::move(status);
  return submitted;
}

absl::StatusOr<v1::JobStatus> JobRegistry::Get(const std::string& job_id) const {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
  return StatusOf(number);
}

std::vector<v1::JobStatus> JobRegistry::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::JobStatus> statuses;
  uint32_t position = 0;
  for (const auto& [number, job] : jobs_) {
    v1::JobStatus& status = statuses.emplace_back(job.status);
    if (status.state() == v1::PENDING) status.set_queue_position(++position);
  }
  std::reverse(statuses.begin(), statuses.end());
  return statuses;
}

std::vector<QueuedJob> JobRegistry::Queue() const {
  absl::MutexLock lock(&mutex_);
  std::vector<QueuedJob> queue;
  for (const auto& [number, job] : jobs_) {
    if (job.status.state() != v1::PENDING) continue;
    queue.push_back({JobIdOf(number), job.status.spec()});
    if (job.status.held()) queue.back().held = HeldWait(job.held_reason);
  }
  return queue;
}

std::vector<UnfinishedJob> JobRegistry::Unfinished() const {
  absl::MutexLock lock(&mutex_);
  std::vector<UnfinishedJob> unfinished;
  for (const auto& [number, job] : jobs_) {
    if (!HoldsWorkers(job.status.state())) continue;
    unfinished.push_back({job.status, job.workers, job.held_reason});
  }
  return unfinished;
}

v1::JobStatus JobRegistry::Plan(const v1::JobStatus& now, v1::JobState to,
                                const std::string& reason) const {
  v1::JobStatus planned = now;
  planned.set_state(to);
  planned.set_reason(reason);
  if ((to == v1::RUNNING || to == v1::FINALIZING) && planned.started_at() == 0) {
    planned.set_started_at(Now());
  }
  // There is nothing left to hold.
  if (to == v1::FINALIZING || IsTerminal(to)) planned.set_held(false);
  if (IsTerminal(to)) {
    planned.set_finished_at(Now());
    planned.set_seconds_left(0);
    ForgetLiveState(planned);
  }
  return planned;
}

// Takes over only what a change of state sets: progress may have gone on during the write.
JobRegistry::Notices JobRegistry::Adopt(const v1::JobStatus& planned) {
  Notices notices;
  const uint64_t number = *JobNumberOf(planned.job_id());
  v1::JobStatus& status = jobs_.at(number).status;
  const bool leaves_queue = status.state() == v1::PENDING && planned.state() != v1::PENDING;
  status.set_state(planned.state());
  status.set_reason(planned.reason());
  status.set_held(planned.held());
  status.set_started_at(planned.started_at());
  status.set_finished_at(planned.finished_at());
  if (IsTerminal(planned.state())) {
    status.set_seconds_left(0);
    ForgetLiveState(status);
  }
  Changed(number, /*event_only=*/false, notices);
  if (!leaves_queue) return notices;
  for (const auto& [behind, job] : jobs_) {
    if (behind > number && job.status.state() == v1::PENDING) Changed(behind, false, notices);
  }
  return notices;
}

absl::Status JobRegistry::Assign(const std::string& job_id,
                                 const std::vector<std::string>& workers) {
  if (workers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(job_id, ": expected workers, found none"));
  }
  TALLY_ASSIGN_OR_RETURN(const Notices notices, CommitAssignment(job_id, workers));
  Deliver(notices);
  return absl::OkStatus();
}

absl::StatusOr<JobRegistry::Notices> JobRegistry::CommitAssignment(
    const std::string& job_id, const std::vector<std::string>& workers) {
  absl::MutexLock assigning(&transitions_);
  v1::JobStatus planned;
  {
    absl::MutexLock lock(&mutex_);
    TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
    const v1::JobStatus& now = jobs_[number].status;
    if (now.state() != v1::PENDING) {
      return absl::FailedPreconditionError(absl::StrCat(job_id, ": expected PENDING, found ",
                                                        JobStateName(now.state())));
    }
    planned = Plan(now, v1::WAITING, "");
    planned.clear_workers();
    SetWorkers(workers, planned);
  }
  TALLY_RETURN_IF_ERROR(store_->SaveAssignment(planned, workers));
  absl::MutexLock lock(&mutex_);
  Job& job = jobs_.at(*JobNumberOf(job_id));
  job.workers = workers;
  *job.status.mutable_workers() = planned.workers();
  return Adopt(planned);
}

absl::Status JobRegistry::SetPlaces(const std::string& job_id,
                                    const std::vector<std::string>& workers) {
  TALLY_ASSIGN_OR_RETURN(const Notices notices, CommitPlaces(job_id, workers));
  Deliver(notices);
  return absl::OkStatus();
}

absl::StatusOr<JobRegistry::Notices> JobRegistry::CommitPlaces(
    const std::string& job_id, const std::vector<std::string>& workers) {
  absl::MutexLock changing(&transitions_);
  v1::JobStatus planned;
  {
    absl::MutexLock lock(&mutex_);
    TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
    const Job& job = jobs_[number];
    if (!HoldsWorkers(job.status.state())) {
      return absl::FailedPreconditionError(absl::StrCat(job_id, ": expected a job at work, found ",
                                                        JobStateName(job.status.state())));
    }
    if (job.workers == workers) return Notices();
    planned = job.status;
    SetWorkers(workers, planned);
  }
  TALLY_RETURN_IF_ERROR(store_->SaveAssignment(planned, workers));
  absl::MutexLock lock(&mutex_);
  Notices notices;
  const uint64_t number = *JobNumberOf(job_id);
  jobs_[number].workers = workers;
  SetWorkers(workers, jobs_[number].status);
  Changed(number, /*event_only=*/false, notices);
  return notices;
}

absl::StatusOr<bool> JobRegistry::Hold(const std::string& job_id, const std::string& reason) {
  bool news = false;
  TALLY_ASSIGN_OR_RETURN(const Notices notices,
                         CommitHold(job_id, true, CleanText(reason, kTextBytes), news));
  Deliver(notices);
  return news;
}

absl::StatusOr<bool> JobRegistry::Unhold(const std::string& job_id) {
  bool news = false;
  TALLY_ASSIGN_OR_RETURN(const Notices notices, CommitHold(job_id, false, "", news));
  Deliver(notices);
  return news;
}

absl::StatusOr<JobRegistry::Notices> JobRegistry::CommitHold(const std::string& job_id, bool held,
                                                             const std::string& reason,
                                                             bool& news) {
  absl::MutexLock changing(&transitions_);
  {
    absl::MutexLock lock(&mutex_);
    TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
    const Job& job = jobs_[number];
    TALLY_RETURN_IF_ERROR(CheckHold(job.status, held));
    // A second word without a reason leaves the first one's.
    const bool same_reason = !held || reason.empty() || reason == job.held_reason;
    if (job.status.held() == held && same_reason) return Notices();
  }
  TALLY_RETURN_IF_ERROR(store_->SaveHold(job_id, held, reason));
  absl::MutexLock lock(&mutex_);
  Notices notices;
  const uint64_t number = *JobNumberOf(job_id);
  Job& job = jobs_[number];
  job.status.set_held(held);
  job.held_reason = reason;
  if (job.status.state() == v1::PENDING) job.status.set_reason(held ? HeldWait(reason) : "");
  Changed(number, /*event_only=*/false, notices);
  news = true;
  return notices;
}

absl::Status JobRegistry::Drain(const std::string& worker, const std::string& given) {
  const std::string reason = CleanText(given, kTextBytes);
  absl::MutexLock changing(&transitions_);
  TALLY_RETURN_IF_ERROR(store_->AddDrained(worker, reason));
  absl::MutexLock lock(&mutex_);
  drained_[worker] = reason;
  return absl::OkStatus();
}

absl::Status JobRegistry::Undrain(const std::string& worker) {
  absl::MutexLock changing(&transitions_);
  TALLY_RETURN_IF_ERROR(store_->RemoveDrained(worker));
  absl::MutexLock lock(&mutex_);
  drained_.erase(worker);
  return absl::OkStatus();
}

std::map<std::string, std::string> JobRegistry::Drained() const {
  absl::MutexLock lock(&mutex_);
  return drained_;
}

absl::Status JobRegistry::Transition(const std::string& job_id, v1::JobState to,
                                     const std::string& reason) {
  TALLY_ASSIGN_OR_RETURN(const Notices notices,
                         CommitTransition(job_id, to, CleanText(reason, kTextBytes)));
  Deliver(notices);
  return absl::OkStatus();
}

absl::StatusOr<JobRegistry::Notices> JobRegistry::CommitTransition(const std::string& job_id,
                                                                   v1::JobState to,
                                                                   const std::string& reason) {
  absl::MutexLock changing(&transitions_);
  v1::JobStatus planned;
  {
    absl::MutexLock lock(&mutex_);
    TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
    const v1::JobStatus& now = jobs_[number].status;
    if (IsTerminal(now.state()) && now.state() != to) {
      return absl::FailedPreconditionError(
          absl::StrCat(job_id, " has ended: ", JobStateName(now.state())));
    }
    TALLY_RETURN_IF_ERROR(WithContext(CheckTransition(now.state(), to), job_id));
    if (now.state() == v1::PENDING && to == v1::WAITING) {
      return absl::FailedPreconditionError(absl::StrCat(job_id, ": WAITING without workers"));
    }
    const bool repeated = now.state() == to;
    if (repeated && (IsTerminal(to) || reason.empty() || reason == now.reason())) {
      return Notices();
    }
    planned = Plan(now, to, reason);
  }
  if (const absl::Status saved = store_->SaveState(planned); !saved.ok()) {
    if (IsTerminal(to)) return saved;
    // A full disk must not hide that it pauses the job. After a restart the run finds its state anew.
    spdlog::error("{}: {} is not written: {}", job_id, std::string(JobStateName(to)),
                  std::string(saved.message()));
  }
  absl::MutexLock lock(&mutex_);
  return Adopt(planned);
}

void JobRegistry::ExplainWait(const std::string& job_id, const std::string& reason) {
  Notices notices;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<uint64_t> number = NumberOf(job_id);
    if (!number.ok()) return;
    v1::JobStatus& status = jobs_[*number].status;
    if (status.state() != v1::PENDING || status.reason() == reason) return;
    status.set_reason(CleanText(reason, kTextBytes));
    Changed(*number, /*event_only=*/false, notices);
  }
  Deliver(notices);
}

void JobRegistry::UpdateProgress(const std::string& job_id,
                                 const std::function<void(v1::JobStatus&)>& change) {
  Notices notices;
  {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<uint64_t> number = NumberOf(job_id);
    if (!number.ok()) return;
    Job& job = jobs_[*number];
    v1::JobStatus& status = job.status;
    if (IsTerminal(status.state())) return;
    const v1::JobState state = status.state();
    const std::string reason = status.reason();
    const bool held = status.held();
    const double submitted = status.submitted_at();
    const double started = status.started_at();
    change(status);
    status.set_job_id(JobIdOf(*number));
    status.set_state(state);
    status.set_reason(reason);
    status.set_held(held);
    status.set_submitted_at(submitted);
    status.set_started_at(started);
    status.set_finished_at(0);
    job.unsaved = true;
    Changed(*number, /*event_only=*/false, notices);
  }
  Deliver(notices);
}

absl::Status JobRegistry::SaveProgress() {
  std::vector<v1::JobStatus> unsaved;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [number, job] : jobs_) {
      if (job.unsaved && !IsTerminal(job.status.state())) unsaved.push_back(job.status);
      job.unsaved = false;
    }
  }
  // What cannot be written now is written with the progress that follows.
  absl::Status first_error;
  for (const v1::JobStatus& status : unsaved) first_error.Update(store_->SaveProgress(status));
  return first_error;
}

absl::Status JobRegistry::AddEvent(const std::string& job_id, const std::string& level,
                                   const std::string& worker, const std::string& message) {
  v1::JobEvent event;
  event.set_time(Now());
  event.set_level(level == "error" || level == "warning" ? level : "info");
  event.set_worker(CleanText(worker, 64));
  event.set_message(CleanText(message, kTextBytes));
  {
    absl::MutexLock lock(&mutex_);
    TALLY_RETURN_IF_ERROR(NumberOf(job_id).status());
  }
  spdlog::log(LogLevel(event.level()), "{}{}{}: {}", job_id, worker.empty() ? "" : " worker ",
              OneLine(event.worker()), OneLine(event.message()));
  TALLY_RETURN_IF_ERROR(store_->AddEvent(job_id, event).status());
  Notices notices;
  {
    absl::MutexLock lock(&mutex_);
    Changed(*JobNumberOf(job_id), /*event_only=*/true, notices);
  }
  Deliver(notices);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::JobEvent>> JobRegistry::Events(const std::string& job_id,
                                                              uint64_t after,
                                                              uint32_t limit) const {
  {
    absl::MutexLock lock(&mutex_);
    TALLY_RETURN_IF_ERROR(NumberOf(job_id).status());
  }
  return store_->Events(job_id, after, limit);
}

absl::StatusOr<uint64_t> JobRegistry::Subscribe(const std::string& job_id, Interest interest,
                                                StatusCallback callback) {
  absl::MutexLock lock(&mutex_);
  TALLY_ASSIGN_OR_RETURN(const uint64_t number, NumberOf(job_id));
  subscriptions_[++last_subscription_] =
      std::make_shared<Subscription>(number, interest, std::move(callback));
  return last_subscription_;
}

void JobRegistry::Unsubscribe(uint64_t subscription) {
  std::shared_ptr<Subscription> gone;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = subscriptions_.find(subscription);
    if (found == subscriptions_.end()) return;
    gone = std::move(found->second);
    subscriptions_.erase(found);
  }
  gone->Close();
}

void JobRegistry::Changed(uint64_t number, bool event_only, Notices& notices) {
  Notice notice;
  notice.version = ++jobs_[number].version;
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription->job() != number) continue;
    if (event_only && subscription->interest() == Interest::kStatus) continue;
    notice.listeners.push_back(subscription);
  }
  if (notice.listeners.empty()) return;
  notice.status = StatusOf(number);
  notices.push_back(std::move(notice));
}

void JobRegistry::Deliver(const Notices& notices) {
  for (const Notice& notice : notices) {
    for (const auto& listener : notice.listeners) listener->Deliver(notice.status, notice.version);
  }
}

}  // namespace tally
