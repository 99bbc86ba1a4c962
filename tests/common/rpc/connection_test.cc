// Both ends over real sockets: what works, and the words of each failure.
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "common/base/status_matchers.h"
#include "common/rpc/channel.h"
#include "common/rpc/server_builder.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server_context.h"
#include "proto/tally/v1/control.grpc.pb.h"
#include "tests/common/rpc/certificates.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::tally::testing::TestCertificates;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(20);
// For peers that will never answer; failures are reported sooner.
constexpr absl::Duration kShort = absl::Milliseconds(1500);

struct Service : v1::JobService::Service {
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    response->add_jobs()->set_reason(std::string(5 << 20, 'x'));
    return grpc::Status::OK;
  }
};

class Connection : public ::testing::Test {
 protected:
  std::string Start(const TlsOptions& tls, const std::string& listen = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    auto running = StartServer(builder, *ParseAddress(listen), tls);
    EXPECT_THAT(running, testing::IsOk());
    server_ = std::move(running->server);
    return running->address.ToString();
  }
  absl::Status Connect(const std::string& address, const TlsOptions& tls, absl::Duration timeout) {
    auto channel = CreateChannel(address, {.tls = tls});
    if (!channel.ok()) return channel.status();
    return WaitForConnected(*channel, address, timeout);
  }

  TestCertificates certificates_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(Connection, PlaintextOverBothFamilies) {
  TALLY_EXPECT_OK(Connect(Start({}), {}, kLong));
  const std::string address = Start({}, "[::1]:0");
  EXPECT_THAT(address, AllOf(StartsWith("[::1]:"), ::testing::Not(HasSubstr(":0"))));
  TALLY_EXPECT_OK(Connect(address, {}, kLong));
}

TEST_F(Connection, MessagesAboveTheDefaultLimit) {
  const std::string address = Start({});
  auto stub = v1::JobService::NewStub(*CreateChannel(address, {}));
  grpc::ClientContext context;
  v1::ListJobsResponse response;
  ASSERT_TRUE(stub->ListJobs(&context, {}, &response).ok());
  EXPECT_EQ(response.jobs(0).reason().size(), 5u << 20);
}

TEST_F(Connection, RefusedNamesAddressAndReason) {
  const std::string address = Start({});
  server_->Shutdown();
  server_.reset();
  EXPECT_THAT(
      Connect(address, {}, kShort),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(StartsWith("server " + address + ": "), HasSubstr("Connection refused"),
                     ::testing::Not(HasSubstr("failed to connect to all")))));
}

TEST_F(Connection, WaitsForAServerThatStartsLater) {
  const std::string address = Start({});
  server_->Shutdown();
  server_.reset();
  absl::Status status = absl::UnknownError("not set");
  std::thread waiting([&] { status = Connect(address, {}, kLong); });
  Start({}, address);
  waiting.join();
  TALLY_EXPECT_OK(status);
}

TEST_F(Connection, HealthAndReflectionAreServed) {
  const std::string address = Start({});
  ASSERT_NE(server_->GetHealthCheckService(), nullptr);
  grpc::GenericStub stub(*CreateChannel(address, {}));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
  };
  call->StartCall(nullptr);
  next();
  call->WritesDone(nullptr);
  next();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  EXPECT_TRUE(status.ok()) << status.error_message();  // and not UNIMPLEMENTED
}

TEST_F(Connection, UnknownHostIsNamed) {
  EXPECT_THAT(Connect("no-such-host.invalid:7070", {}, kShort),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no-such-host.invalid:7070")));
}

TEST_F(Connection, ProxyVariableIsNamed) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const absl::Status status = Connect(Start({}), {}, kShort);
  setenv("no_proxy", "127.0.0.1", 1);
  const absl::Status exempt = Connect(Start({}), {}, kLong);
  unsetenv("http_proxy");
  unsetenv("no_proxy");
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("http_proxy=http://127.0.0.1:1")));
  TALLY_EXPECT_OK(exempt);
}

TEST_F(Connection, PortZeroIsNoTarget) {
  EXPECT_THAT(Connect("127.0.0.1:0", {}, kShort),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 0")));
}

TEST_F(Connection, MutualTls) {
  const TlsOptions server = certificates_.Issue("server", "IP:127.0.0.1");
  const TlsOptions client = certificates_.Issue("client", "DNS:client");
  TALLY_EXPECT_OK(Connect(Start(server), client, kLong));
}

TEST_F(Connection, OneSidedTls) {
  TlsOptions server = certificates_.Issue("server", "IP:127.0.0.1");
  server.ca.clear();
  TALLY_EXPECT_OK(Connect(Start(server), {.ca = certificates_.ca()}, kLong));
}

TEST_F(Connection, WrongAuthority) {
  TestCertificates others;
  const TlsOptions server = certificates_.Issue("server", "IP:127.0.0.1");
  EXPECT_THAT(Connect(Start(server), {.ca = others.ca()}, kShort),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not signed by the ca")));
}

TEST_F(Connection, CertificateOfAnotherHost) {
  TlsOptions server = certificates_.Issue("server", "DNS:elsewhere");
  server.ca.clear();
  EXPECT_THAT(Connect(Start(server), {.ca = certificates_.ca()}, kShort),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("for another host")));
}

TEST_F(Connection, NoClientCertificate) {
  const TlsOptions server = certificates_.Issue("server", "IP:127.0.0.1");
  EXPECT_THAT(
      Connect(Start(server), {.ca = certificates_.ca()}, kShort),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("expects TLS, or a client certificate")));
}

TEST_F(Connection, TlsToPlaintext) {
  EXPECT_THAT(Connect(Start({}), {.ca = certificates_.ca()}, kShort),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("speaks no TLS")));
}

TEST_F(Connection, PlaintextToTls) {
  const TlsOptions server = certificates_.Issue("server", "IP:127.0.0.1");
  EXPECT_THAT(Connect(Start(server), {}, kShort),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("expects TLS")));
}

TEST_F(Connection, PortInUseIsNamed) {
  const std::string address = Start({});
  grpc::ServerBuilder builder;
  Service service;
  builder.RegisterService(&service);
  EXPECT_THAT(StartServer(builder, *ParseAddress(address), {}),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(address), HasSubstr("Address already in use"))));
}

TEST(CheckExposure, LoopbackTlsOrSaidAloud) {
  const TlsOptions tls{.certificate = "c", .key = "k"};
  TALLY_EXPECT_OK(CheckExposure(*ParseAddress("127.0.0.1:1"), {}, false));
  TALLY_EXPECT_OK(CheckExposure(*ParseAddress("0.0.0.0:1"), tls, false));
  TALLY_EXPECT_OK(CheckExposure(*ParseAddress("0.0.0.0:1"), {}, true));
  EXPECT_THAT(CheckExposure(*ParseAddress("0.0.0.0:1"), {}, false),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("insecure: true")));
}

}  // namespace
}  // namespace tally
