#include "worker/daemon/daemon.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "spdlog/spdlog.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/daemon/check_machine.h"
#include "worker/model/model.h"

namespace tally {
namespace {

std::string NewInstance() {
  absl::BitGen random;
  return DigestToString(absl::Uniform<uint64_t>(random));
}

// Errors that the same session opened again would meet again.
bool IsFinal(const absl::Status& status) {
  return absl::IsAlreadyExists(status) || absl::IsInvalidArgument(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

Daemon::Daemon(WorkerConfig config, std::shared_ptr<grpc::Channel> channel, FileLock lock)
    : config_(std::move(config)),
      channel_(std::move(channel)),
      lock_(std::move(lock)),
      instance_(NewInstance()) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(WorkerConfig config) {
  TALLY_RETURN_IF_ERROR(CheckMachine(config));
  TALLY_ASSIGN_OR_RETURN(const std::string device, ChooseDevice(config.device));
  if (device != config.device) spdlog::info("device {}: {}", config.device, device);
  config.device = device;
  TALLY_RETURN_IF_ERROR(MakeFolders(config.state_dir));
  TALLY_ASSIGN_OR_RETURN(FileLock lock,
                         FileLock::Acquire(absl::StrCat(config.state_dir, "/worker.lock")));
  ChannelOptions options;
  options.tls = config.tls;
  TALLY_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                         CreateChannel(config.server, options));
  if (config.threads > 0) SetComputeThreads(config.threads);
  return std::unique_ptr<Daemon>(
      new Daemon(std::move(config), std::move(channel), std::move(lock)));
}

Daemon::~Daemon() {
  Stop();
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    if (work_ != nullptr) thread = std::move(work_->thread);
  }
  if (thread.joinable()) thread.join();
  if (heart_.joinable()) heart_.join();
}

v1::Hello Daemon::HelloMessage() const {
  v1::Hello hello;
  hello.set_name(config_.name);
  hello.set_version(TALLY_VERSION);
  hello.set_instance(instance_);
  hello.set_device(config_.device);
  for (const auto& [name, set] : config_.data) {
    v1::DataSetInfo* info = hello.add_data_sets();
    info->set_name(name);
    info->set_shared(set.shared);
  }
  hello.mutable_labels()->insert(config_.labels.begin(), config_.labels.end());
  for (const std::string& architecture : Architectures()) hello.add_architectures(architecture);
  return hello;
}

absl::Status Daemon::Run() {
  heart_ = std::thread([this] { Beat(); });
  Backoff backoff;
  {
    absl::MutexLock lock(&mutex_);
    alone_since_ = Clock::System().Steady();
  }
  for (;;) {
    const absl::Status status = Explain(RunSession(), config_.server);
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::OkStatus();
    if (IsFinal(status)) return status;
    if (std::exchange(welcomed_, false)) {
      backoff.Reset();
      alone_since_ = Clock::System().Steady();
    }
    TALLY_RETURN_IF_ERROR(CheckLimit(status));
    const absl::Duration left =
        config_.reconnect_limit - (Clock::System().Steady() - alone_since_);
    const absl::Duration pause = std::min(backoff.Next(), left);
    spdlog::warn("{}; connecting again in {}", std::string(status.message()),
                 absl::FormatDuration(absl::Trunc(pause, absl::Milliseconds(1))));
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), pause)) return absl::OkStatus();
  }
}

absl::Status Daemon::CheckLimit(const absl::Status& last) const {
  if (Clock::System().Steady() - alone_since_ < config_.reconnect_limit) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no server for ",
                                             absl::FormatDuration(config_.reconnect_limit),
                                             " (reconnect_limit): ", last.message()));
}

void Daemon::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  if (session_ != nullptr) session_->Cancel();
  if (work_ == nullptr) return;
  work_->cancelled = true;
  if (work_->loop != nullptr) work_->loop->Stop();
}

bool Daemon::WaitForWork(absl::Duration grace) {
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return work_ == nullptr || work_->done;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&over), grace);
}

absl::Status Daemon::RunSession() {
  std::shared_ptr<Session> session = Session::Open(channel_, HelloMessage());
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("stopping");
    session_ = session;
  }
  absl::Status status = absl::UnavailableError("the server closed the session");
  for (;;) {
    absl::StatusOr<std::optional<v1::SessionDown>> down = session->Receive();
    if (!down.ok()) status = down.status();
    if (!down.ok() || !down->has_value()) break;
    OnMessage(**down);
  }
  absl::MutexLock lock(&mutex_);
  session_ = nullptr;
  return status;
}

void Daemon::OnMessage(const v1::SessionDown& down) {
  switch (down.body_case()) {
    case v1::SessionDown::kWelcome: {
      spdlog::info("joined {} as {} (server version {})", config_.server, config_.name,
                   down.welcome().server_version());
      absl::MutexLock lock(&mutex_);
      welcomed_ = true;
      heartbeat_ = absl::Milliseconds(static_cast<int64_t>(down.welcome().heartbeat_ms()));
      beat_now_ = true;  // the pause at work may be a longer one
      return;
    }
    case v1::SessionDown::kAssignment:
      return OnAssignment(down.assignment());
    case v1::SessionDown::kRelease:
      return OnRelease(down.release());
    default:
      return;
  }
}

// Beats on a thread of its own, so that a long step is never taken for a death.
void Daemon::Beat() {
  absl::MutexLock lock(&mutex_);
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || beat_now_;
  };
  while (!stopping_) {
    mutex_.AwaitWithTimeout(absl::Condition(&awake), heartbeat_);
    beat_now_ = false;
    if (session_ == nullptr || stopping_) continue;
    v1::SessionUp up;
    v1::Heartbeat& heartbeat = *up.mutable_heartbeat();
    if (work_ != nullptr && !work_->done) {
      heartbeat.set_job_id(work_->job_id);
      const auto progress = work_->loop == nullptr ? std::nullopt : work_->loop->Progress();
      if (progress.has_value()) *heartbeat.mutable_progress() = *progress;
    }
    session_->Send(std::move(up));
  }
}

void Daemon::OnAssignment(const v1::Assignment& assignment) {
  {
    absl::MutexLock lock(&mutex_);
    if (IsAt(assignment)) return;
  }
  if (!EndWork()) return;
  spdlog::info("job {} ({}): worker {} of {}", assignment.job_id(), assignment.spec().name(),
               assignment.index(), assignment.count());
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  work_ = std::make_unique<Work>();
  work_->job_id = assignment.job_id();
  work_->job_key = assignment.job_key();
  work_->index = assignment.index();
  work_->thread = std::thread([this, assignment] { DoJob(assignment); });
}

bool Daemon::IsAt(const v1::Assignment& assignment) const {
  return work_ != nullptr && !work_->done && work_->job_id == assignment.job_id() &&
         work_->job_key == assignment.job_key() && work_->index == assignment.index();
}

void Daemon::OnRelease(const v1::Release& release) {
  absl::MutexLock lock(&mutex_);
  if (work_ == nullptr || work_->job_id != release.job_id() || work_->done) {
    // It may have ended while this daemon was away, or in an error.
    const auto folder = CheckpointFolder::Of(config_.state_dir, release.job_id());
    if (folder.ok()) folder->Remove();
    return;
  }
  spdlog::info("job {}: released: {}", release.job_id(), release.reason());
  work_->cancelled = true;
  if (work_->loop != nullptr) work_->loop->Cancel();
}

// Another job takes the place of the one at work.
bool Daemon::EndWork() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    if (work_ == nullptr) return true;
    work_->cancelled = true;
    if (work_->loop != nullptr) work_->loop->Cancel();
    const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return work_->done || stopping_;
    };
    mutex_.Await(absl::Condition(&over));
    if (!work_->done) return false;
    thread = std::move(work_->thread);
  }
  thread.join();
  absl::MutexLock lock(&mutex_);
  work_.reset();
  return true;
}

void Daemon::DoJob(const v1::Assignment& assignment) {
  const absl::Status status = Train(assignment);
  v1::SessionUp up;
  v1::JobLeft* left = up.mutable_left();
  left->set_job_id(assignment.job_id());
  if (!status.ok() && !absl::IsCancelled(status) && !absl::IsNotFound(status)) {
    spdlog::error("job {}: {}", assignment.job_id(), std::string(status.message()));
    left->set_error(std::string(status.message()));
    left->set_fatal(absl::IsInvalidArgument(status));
  }
  absl::MutexLock lock(&mutex_);
  if (work_->loop != nullptr) work_->loop.reset();
  work_->done = true;
  // A daemon that stops comes back to the job.
  if (session_ != nullptr && !stopping_) session_->Send(std::move(up));
}

absl::StatusOr<TrainingOptions> Daemon::OptionsFor(const v1::Assignment& assignment) {
  const std::string& data = assignment.spec().data().name();
  const auto found = config_.data.find(data);
  if (found == config_.data.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set ", data, ": not in this worker's configuration"));
  }
  TrainingOptions options;
  options.channel = channel_;
  options.assignment = assignment;
  options.worker = config_.name;
  options.instance = instance_;
  options.data = {found->second.format, found->second.path};
  options.shared_data = found->second.shared;
  options.state_folder = config_.state_dir;
  options.checkpoint_every = config_.checkpoint_every;
  options.report = [this, job_id = assignment.job_id()](const std::string& level,
                                                        const std::string& message) {
    Report(job_id, level, message);
  };
  return options;
}

absl::Status Daemon::Train(const v1::Assignment& assignment) {
  TALLY_ASSIGN_OR_RETURN(TrainingOptions options, OptionsFor(assignment));
  TALLY_ASSIGN_OR_RETURN(std::unique_ptr<TrainingLoop> built,
                         TrainingLoop::Create(std::move(options)));
  const std::shared_ptr<TrainingLoop> loop = std::move(built);
  {
    absl::MutexLock lock(&mutex_);
    if (work_->cancelled) return absl::CancelledError("released");
    work_->loop = loop;
  }
  return loop->Run();
}

void Daemon::Report(const std::string& job_id, const std::string& level,
                    const std::string& message) {
  v1::SessionUp up;
  up.mutable_event()->set_job_id(job_id);
  up.mutable_event()->set_level(level);
  up.mutable_event()->set_message(message);
  absl::MutexLock lock(&mutex_);
  if (session_ != nullptr) session_->Send(std::move(up));
}

}  // namespace tally
