#include "server/app/server.h"

#include <malloc.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/server_builder.h"
#include "server/job/registry.h"
#include "server/service/job_service.h"
#include "server/service/open_streams.h"
#include "server/service/training_service.h"
#include "server/status/metrics.h"
#include "server/status/status_server.h"
#include "server/supervisor/supervisor.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

// What the status endpoint shows.
class ServerStatus final : public StatusSource {
 public:
  ServerStatus(JobRegistry* registry, const Supervisor* supervisor)
      : registry_(registry), supervisor_(supervisor), started_(Clock::System().Steady()) {}

  StatusSnapshot Get() override {
    StatusSnapshot snapshot;
    snapshot.version = TALLY_VERSION;
    {
      absl::MutexLock lock(&mutex_);
      snapshot.address = address_;
    }
    snapshot.uptime = Clock::System().Steady() - started_;
    snapshot.jobs = registry_->List();
    snapshot.workers = supervisor_->Workers();
    return snapshot;
  }
  absl::StatusOr<v1::JobStatus> Job(const std::string& job_id) override {
    return registry_->Get(job_id);
  }
  absl::Status Health() override {
    return serving_ ? absl::OkStatus() : absl::UnavailableError("the server is stopping");
  }

  void SetAddress(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    address_ = address;
  }
  void SetServing(bool serving) { serving_ = serving; }

 private:
  JobRegistry* const registry_;
  const Supervisor* const supervisor_;
  const absl::Duration started_;
  std::atomic<bool> serving_{false};
  absl::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
};

// Chunks come and go by the megabyte on many threads, and glibc would keep freed ones in an arena a
// thread. A second arena costs a tenth more memory in a round and gains no time
// (docs/benchmarks.md).
constexpr int kArenas = 1;

}  // namespace

// In the order of construction: each uses only those before it.
struct Server::Parts {
  std::unique_ptr<JobRegistry> registry;
  std::unique_ptr<ModelStore> models;
  Metrics metrics;
  std::unique_ptr<Supervisor> supervisor;
  std::unique_ptr<ServerStatus> status;
  std::unique_ptr<StatusServer> http;
  OpenStreams streams;
  std::unique_ptr<TrainingServiceImpl> training;
  std::unique_ptr<JobServiceImpl> jobs;
  RunningServer grpc;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() { Stop(absl::Milliseconds(200)); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config) {
  TALLY_RETURN_IF_ERROR(CheckExposure(config.listen, config.tls, config.insecure));
  mallopt(M_ARENA_MAX, kArenas);
  auto parts = std::make_unique<Parts>();
  TALLY_ASSIGN_OR_RETURN(parts->registry, JobRegistry::Open(config.state_dir));
  TALLY_ASSIGN_OR_RETURN(parts->models, ModelStore::Open(config.state_dir));
  SupervisorOptions options;
  options.state_dir = config.state_dir;
  options.heartbeat = config.heartbeat;
  options.strict_durability = config.strict_durability;
  options.keep = config.keep;
  parts->supervisor = Supervisor::Start(options, parts->registry.get(), parts->models.get(),
                                        &parts->metrics);
  parts->status = std::make_unique<ServerStatus>(parts->registry.get(), parts->supervisor.get());
  std::string status_address;
  if (config.status.has_value()) {
    TALLY_ASSIGN_OR_RETURN(parts->http, StatusServer::Start(*config.status, parts->status.get(),
                                                            &parts->metrics));
    status_address = parts->http->address().ToString();
  }
  parts->training = std::make_unique<TrainingServiceImpl>(
      parts->supervisor.get(), parts->models.get(), &parts->streams);
  parts->jobs = std::make_unique<JobServiceImpl>(config.state_dir, parts->supervisor.get(),
                                                 parts->registry.get(), parts->models.get(),
                                                 &parts->streams, status_address);
  grpc::ServerBuilder builder;
  builder.RegisterService(parts->training.get());
  builder.RegisterService(parts->jobs.get());
  TALLY_ASSIGN_OR_RETURN(parts->grpc, StartServer(builder, config.listen, config.tls));
  parts->status->SetAddress(parts->grpc.address.ToString());
  parts->status->SetServing(true);
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

const Address& Server::address() const { return parts_->grpc.address; }

std::string Server::status_address() const {
  return parts_->http == nullptr ? "" : parts_->http->address().ToString();
}

void Server::Stop(absl::Duration grace) {
  if (parts_->grpc.server == nullptr) return;
  parts_->status->SetServing(false);
  if (auto* health = parts_->grpc.server->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(false);
  }
  // Sessions, exchanges and watches would last out the grace, which is for calls that have an end.
  parts_->streams.EndAll({grpc::StatusCode::UNAVAILABLE, "the server is stopping"});
  parts_->grpc.server->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  parts_->grpc.server->Wait();
  parts_->grpc.server.reset();
  if (parts_->http != nullptr) parts_->http->Stop();
  // Before the services' memory: the timer thread calls links of streams that are gone by now.
  parts_->supervisor.reset();
}

}  // namespace tally
