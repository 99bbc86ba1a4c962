// Verifications and downloads of rounds as streams, over a job's folder and loopback.
#include <atomic>
#include <filesystem>
#include <memory>

#include "absl/synchronization/notification.h"
#include "common/base/status_matchers.h"
#include "common/rpc/server_builder.h"
#include "common/rpc/status.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "proto/tally/v1/control.grpc.pb.h"
#include "server/service/file_stream.h"
#include "server/service/verify_stream.h"
#include "tests/server/audit/test_job.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

// The two calls of JobService that are looked at here.
class AuditService final : public v1::JobService::CallbackService {
 public:
  AuditService(std::string job_folder, std::string state)
      : job_folder_(std::move(job_folder)), exports_(std::move(state)) {}

  grpc::ServerWriteReactor<v1::VerifyProgress>* VerifyJob(
      grpc::CallbackServerContext*, const v1::VerifyJobRequest* request) override {
    if (request->job_id() != "job-7") {
      return VerifyStream::Serve(absl::NotFoundError("no such job"), &verifications, &streams);
    }
    return VerifyStream::Serve(VerifyOptions{"job-7", job_folder_}, &verifications, &streams);
  }
  grpc::ServerWriteReactor<v1::FilePart>* DownloadModel(
      grpc::CallbackServerContext*, const v1::DownloadModelRequest* request) override {
    const auto make = [this, round = request->round()](const FileStream::GoOn& go_on) {
      on_make();
      return exports_.Make("job-7", job_folder_, round, go_on);
    };
    return FileStream::ServeMade(make, {"config.json", "model.safetensors"}, &downloads, &streams);
  }

  OpenStreams streams;
  std::function<void()> on_make = [] {};  // on the download's thread, before it begins

 private:
  const std::string job_folder_;
  const ModelExports exports_;

 public:
  TaskThreads verifications{2, "verifications"};
  TaskThreads downloads{2, "downloads of rounds"};
};

class AuditStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    auto running = StartServer(builder, Address{"127.0.0.1", 0}, {});
    TALLY_ASSERT_OK(running);
    server_ = std::move(running->server);
    stub_ = v1::JobService::NewStub(grpc::CreateChannel(running->address.ToString(),
                                                        grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    server_->Shutdown();
    server_->Wait();
  }

  // All messages merged; the status is the call's.
  struct Verification {
    v1::VerifyProgress last;
    int differences = 0;
    grpc::Status status;
  };
  Verification Verify(const std::string& job_id = "job-7") {
    grpc::ClientContext context;
    v1::VerifyJobRequest request;
    request.set_job_id(job_id);
    const auto reader = stub_->VerifyJob(&context, request);
    Verification result;
    while (reader->Read(&result.last)) result.differences += result.last.differences_size();
    result.status = reader->Finish();
    return result;
  }
  std::unique_ptr<grpc::ClientReader<v1::FilePart>> Download(grpc::ClientContext& context,
                                                             uint64_t round) {
    v1::DownloadModelRequest request;
    request.set_job_id("job-7");
    request.set_round(round);
    return stub_->DownloadModel(&context, request);
  }
  // Bytes of both files; the call's status.
  grpc::Status Read(grpc::ClientReader<v1::FilePart>& reader, std::string& bytes) {
    v1::FilePart part;
    while (reader.Read(&part)) bytes += part.data();
    return reader.Finish();
  }
  bool NothingLeft() const {
    return !std::filesystem::exists(state_ / "exports") ||
           std::filesystem::is_empty(state_ / "exports");
  }

  TestJob job_;
  TestFolder state_;
  // Of downloads that are held up: the first and the second have begun; all may go on.
  absl::Notification first_, second_, end_;
  std::unique_ptr<AuditService> service_ =
      std::make_unique<AuditService>(job_.path(), state_.path());
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(AuditStreamsTest, AVerificationComesToItsEnd) {
  const Verification result = Verify();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_TRUE(result.last.done());
  EXPECT_EQ(result.last.round(), 42u);
  EXPECT_EQ(result.last.difference_count(), 0u);
}

TEST_F(AuditStreamsTest, EveryDifferenceComesOnce) {
  for (const uint64_t round : {5, 10, 35}) job_.log().Append(round, "liar", round, {});
  const Verification result = Verify();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.differences, 3);
  EXPECT_EQ(result.last.difference_count(), 3u);
}

TEST_F(AuditStreamsTest, ErrorsAreTheCalls) {
  EXPECT_EQ(Verify("job-8").status.error_code(), grpc::StatusCode::NOT_FOUND);
  std::filesystem::remove_all(job_ / "ledger");
  EXPECT_EQ(Verify().status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(AuditStreamsTest, OneVerificationAJob) {
  TALLY_ASSERT_OK(service_->verifications.Start("job-7", [&] {
    end_.WaitForNotification();
    return nullptr;
  }));
  const Verification result = Verify();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  end_.Notify();
}

TEST_F(AuditStreamsTest, AVerificationWhoseClientHasGoneStops) {
  {
    grpc::ClientContext context;
    v1::VerifyJobRequest request;
    request.set_job_id("job-7");
    const auto reader = stub_->VerifyJob(&context, request);
    v1::VerifyProgress progress;
    reader->Read(&progress);
    context.TryCancel();
    while (reader->Read(&progress)) continue;
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
  }
}

TEST_F(AuditStreamsTest, ADownloadIsTheFilesAndLeavesNothing) {
  for (const uint64_t step : {0, 15, 17}) {  // the base, a snapshot, a fold
    grpc::ClientContext context;
    std::string bytes;
    const grpc::Status status = Read(*Download(context, step), bytes);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(bytes.substr(0, 8), "{\"a\": 1}");
    EXPECT_GT(bytes.size(), job_.layout().size() * sizeof(float));
  }
  EXPECT_TRUE(NothingLeft());  // already when the calls have ended
}

TEST_F(AuditStreamsTest, ADownloadsErrorIsTheCalls) {
  grpc::ClientContext context;
  std::string bytes;
  const grpc::Status status = Read(*Download(context, 99), bytes);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), HasSubstr("there are rounds 0 to 32"));
}

TEST_F(AuditStreamsTest, TwoDownloadsAtOnceAndACancelledOneStops) {
  std::atomic<int> made{0};
  service_->on_make = [&] {
    (made++ == 0 ? first_ : second_).Notify();
    end_.WaitForNotification();
  };
  grpc::ClientContext contexts[3];
  auto one = Download(contexts[0], 17);
  first_.WaitForNotification();
  auto two = Download(contexts[1], 18);
  second_.WaitForNotification();
  std::string bytes;
  EXPECT_EQ(Read(*Download(contexts[2], 19), bytes).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  contexts[0].TryCancel();
  EXPECT_EQ(Read(*one, bytes).error_code(), grpc::StatusCode::CANCELLED);
  end_.Notify();
  EXPECT_TRUE(Read(*two, bytes).ok());
}

TEST_F(AuditStreamsTest, TheServersEndEndsThem) {
  service_->on_make = [&] {
    first_.Notify();
    end_.WaitForNotification();
  };
  grpc::ClientContext context;
  auto reader = Download(context, 17);
  first_.WaitForNotification();
  service_->streams.EndAll(grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping"));
  std::string bytes;
  EXPECT_EQ(Read(*reader, bytes).error_code(), grpc::StatusCode::UNAVAILABLE);
  end_.Notify();
}

}  // namespace
}  // namespace tally::testing
