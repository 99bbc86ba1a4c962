// The daemon's session without a server, or with one that comes back elsewhere.
#include "worker/daemon/daemon.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "common/rpc/server_builder.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "gtest/gtest.h"
#include "proto/tally/v1/training.grpc.pb.h"
#include "tests/common/base/temp_folder.h"
#include "tests/worker/data/idx_files.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Welcomes whoever says hello, and holds the session until the worker or the server goes.
class FakeSessions final : public v1::TrainingService::Service {
 public:
  absl::Notification joined;
  std::string release;  // a job that is released at once

 private:
  grpc::Status Session(grpc::ServerContext*,
                       grpc::ServerReaderWriter<v1::SessionDown, v1::SessionUp>* stream) override {
    v1::SessionUp up;
    if (!stream->Read(&up) || !up.has_hello()) return grpc::Status::OK;
    v1::SessionDown down;
    down.mutable_welcome()->set_heartbeat_ms(1000);
    stream->Write(down);
    if (!release.empty()) {
      down.mutable_release()->set_job_id(release);
      stream->Write(down);
    }
    if (!joined.HasBeenNotified()) joined.Notify();
    while (stream->Read(&up)) continue;
    return grpc::Status::OK;
  }
};

struct RunningFake {
  explicit RunningFake(const std::string& listen) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&sessions);
    auto started = StartServer(builder, *ParseAddress(listen), {});
    EXPECT_TRUE(started.ok()) << started.status();
    running = *std::move(started);
  }
  ~RunningFake() { running.server->Shutdown(std::chrono::system_clock::now()); }
  FakeSessions sessions;
  RunningServer running;
};

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    data_.WriteSplit("train", 6);
    config_.name = "worker-0";
    config_.device = "cpu";
    config_.state_dir = state_.File("worker");
    config_.data["images"] = {"idx", data_.path(), true};
    config_.checkpoint_every = absl::InfiniteDuration();
    config_.reconnect_limit = absl::InfiniteDuration();
  }
  std::unique_ptr<Daemon> Make() {
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Create(config_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return *std::move(daemon);
  }
  // An address at which nobody listens.
  std::string NobodysAddress() { return RunningFake("127.0.0.1:0").running.address.ToString(); }

  testing::Folder data_;
  testing::TempFolder state_;
  WorkerConfig config_;
};

TEST_F(DaemonTest, EndsWithTheLastReasonAfterTheReconnectLimit) {
  config_.server = NobodysAddress();
  config_.reconnect_limit = absl::Milliseconds(300);
  EXPECT_THAT(Make()->Run(), StatusIs(absl::StatusCode::kUnavailable,
                                      AllOf(HasSubstr("no server for 300ms (reconnect_limit)"),
                                            HasSubstr(config_.server))));
}

TEST_F(DaemonTest, ALostServerCountsFromItsLoss) {
  auto fake = std::make_unique<RunningFake>("127.0.0.1:0");
  config_.server = fake->running.address.ToString();
  config_.reconnect_limit = absl::Milliseconds(300);
  const std::unique_ptr<Daemon> daemon = Make();
  absl::Status status;
  std::thread runner([&] { status = daemon->Run(); });
  fake->sessions.joined.WaitForNotification();
  fake.reset();
  runner.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("reconnect_limit")));
}

TEST_F(DaemonTest, WithoutALimitItStopsOnlyWhenTold) {
  config_.server = NobodysAddress();
  const std::unique_ptr<Daemon> daemon = Make();
  absl::Status status = absl::UnknownError("not ended");
  std::thread runner([&] { status = daemon->Run(); });
  daemon->Stop();
  runner.join();
  TALLY_EXPECT_OK(status);
  EXPECT_TRUE(daemon->WaitForWork(absl::ZeroDuration()));
}

// The name stays, what it stands for changes: localhost by IPv4, then by IPv6.
TEST_F(DaemonTest, AServerThatComesBackAtAnotherAddressOfItsNameIsFound) {
  auto fake = std::make_unique<RunningFake>("127.0.0.1:0");
  const int port = fake->running.address.port;
  config_.server = absl::StrCat("localhost:", port);
  const std::unique_ptr<Daemon> daemon = Make();
  absl::Status status;
  std::thread runner([&] { status = daemon->Run(); });
  fake->sessions.joined.WaitForNotification();
  fake.reset();
  {
    const RunningFake moved(absl::StrCat("[::1]:", port));
    moved.sessions.joined.WaitForNotification();
    daemon->Stop();
    runner.join();
  }
  TALLY_EXPECT_OK(status);
}

TEST_F(DaemonTest, AJobThatEndedMeanwhileLeavesNothing) {
  const std::string folder = state_.File("worker/jobs/job-7");
  TALLY_ASSERT_OK(MakeFolders(folder));
  RunningFake fake("127.0.0.1:0");
  fake.sessions.release = "job-7";
  config_.server = fake.running.address.ToString();
  const std::unique_ptr<Daemon> daemon = Make();
  std::thread runner([&] { TALLY_EXPECT_OK(daemon->Run()); });
  fake.sessions.joined.WaitForNotification();
  while (std::filesystem::exists(folder)) std::this_thread::yield();
  daemon->Stop();
  runner.join();
}

TEST_F(DaemonTest, DoesNotStartOnDataThatIsNotThere) {
  config_.server = "127.0.0.1:1";
  config_.data["images"].path = "/no/such/folder";
  EXPECT_THAT(Daemon::Create(config_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.images: /no/such/folder: expected the file")));
  EXPECT_TRUE(state_.Names().empty());
}

}  // namespace
}  // namespace tally
