#include "server/status/status_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/server/status/fake_source.h"

namespace tally {
namespace {

using testing::FakeSource;
using testing::MakeSnapshot;
using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StatusServerTest : public ::testing::Test {
 protected:
  StatusServerTest() {
    source_.Set(MakeSnapshot());
    server_ = Start({"127.0.0.1", 0});
  }
  std::unique_ptr<StatusServer> Start(const Address& address) {
    auto server = StatusServer::Start(address, &source_, &metrics_);
    if (!server.ok()) ADD_FAILURE() << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  httplib::Client Client() { return httplib::Client("127.0.0.1", server_->address().port); }

  FakeSource source_;
  Metrics metrics_;
  std::unique_ptr<StatusServer> server_;
};

TEST_F(StatusServerTest, PortZeroGivesARealPort) {
  EXPECT_EQ(server_->address().host, "127.0.0.1");
  EXPECT_GT(server_->address().port, 0);
}

TEST_F(StatusServerTest, EveryPageOverASocket) {
  httplib::Client client = Client();
  const std::pair<const char*, const char*> pages[] = {
      {"/", "text/html; charset=utf-8"},
      {"/status", "application/json"},
      {"/status?x=1", "application/json"},
      {"/jobs/job-1", "application/json"},
      {"/jobs/job%2D1", "application/json"},
      {"/metrics", "text/plain; version=0.0.4; charset=utf-8"},
      {"/healthz", "application/json"},
  };
  for (const auto& [path, type] : pages) {
    const auto answer = client.Get(path);
    ASSERT_TRUE(answer) << path << ": " << httplib::to_string(answer.error());
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), type);
    EXPECT_EQ(answer->get_header_value("Cache-Control"), "no-store");
    EXPECT_THAT(answer->get_header_value("Content-Security-Policy"),
                HasSubstr("default-src 'none'"));
  }
}

TEST_F(StatusServerTest, JsonIsWhatTheSourceHas) {
  const auto answer = Client().Get("/status");
  ASSERT_TRUE(answer);
  const auto json = nlohmann::json::parse(answer->body);
  EXPECT_EQ(json["jobs"][0]["spec"]["seed"], UINT64_MAX);
  EXPECT_EQ(json["jobs"][0]["spec"]["name"], "<b>fashion</b>");
}

TEST_F(StatusServerTest, ErrorsKeepTheirStatusAndBody) {
  httplib::Client client = Client();
  EXPECT_EQ(client.Get("/nothing")->status, 404);
  EXPECT_THAT(client.Get("/jobs/job-9")->body, HasSubstr("job-9: no such job"));
  EXPECT_EQ(client.Delete("/jobs/job-1")->status, 405);
  source_.SetHealth(absl::UnavailableError("stopping"));
  EXPECT_EQ(client.Get("/healthz")->status, 503);
  EXPECT_THAT(client.Get("/healthz")->body, HasSubstr("stopping"));
}

TEST_F(StatusServerTest, HeadHasNoBody) {
  const auto answer = Client().Head("/status");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "");
}

TEST_F(StatusServerTest, LongAndOddPaths) {
  httplib::Client client = Client();
  EXPECT_EQ(client.Get("/jobs/" + std::string(7000, 'x'))->status, 404);
  EXPECT_EQ(client.Get("/" + std::string(20000, 'x'))->status, 414);
  EXPECT_EQ(client.Get("/jobs/%00%ff%0a")->status, 404);
  EXPECT_EQ(client.Get("/status")->status, 200);
}

TEST_F(StatusServerTest, SecondServerOnTheSamePortFails) {
  EXPECT_THAT(
      StatusServer::Start(server_->address(), &source_, &metrics_),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr(server_->address().ToString()), HasSubstr("Address already in use"))));
  EXPECT_EQ(Client().Get("/healthz")->status, 200);
}

TEST_F(StatusServerTest, AddressThatIsNotOurs) {
  EXPECT_THAT(StatusServer::Start({"192.0.2.1", 0}, &source_, &metrics_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("192.0.2.1:0")));
  EXPECT_THAT(StatusServer::Start({"no-such-host.invalid", 0}, &source_, &metrics_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no-such-host.invalid:0")));
}

TEST_F(StatusServerTest, PortIsFreeAgainAfterStop) {
  const Address address = server_->address();
  EXPECT_EQ(Client().Get("/healthz")->status, 200);
  server_->Stop();
  server_->Stop();
  EXPECT_FALSE(Client().Get("/healthz"));
  server_ = Start(address);
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(server_->address().port, address.port);
  EXPECT_EQ(Client().Get("/healthz")->status, 200);
}

TEST_F(StatusServerTest, StartAndStopManyTimes) {
  for (int i = 0; i < 50; ++i) ASSERT_NE(Start({"127.0.0.1", 0}), nullptr);
}

TEST_F(StatusServerTest, StopsThoughAClientIsSilent) {
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(server_->address().port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(silent, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(send(silent, "GET /sta", 8, 0), 8);
  EXPECT_EQ(Client().Get("/healthz")->status, 200);
  server_->Stop();
  close(silent);
}

TEST_F(StatusServerTest, ManyReadersWhileTheSourceChanges) {
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([this, i] {
      const char* paths[] = {"/status", "/metrics", "/jobs/job-1", "/healthz"};
      for (int k = 0; k < 25; ++k) EXPECT_EQ(Client().Get(paths[i])->status, 200);
    });
  }
  for (int k = 0; k < 100; ++k) {
    source_.Set(MakeSnapshot());
    metrics_.RoundClosed(absl::Milliseconds(k));
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace tally
