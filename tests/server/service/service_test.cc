// The whole server in this process, spoken to over loopback with ordinary protobuf messages.
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/digest.h"
#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/layout/chunk_grid.h"
#include "common/reduction/reduction.h"
#include "common/rpc/limits.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/tally/v1/control.grpc.pb.h"
#include "proto/tally/v1/training.grpc.pb.h"
#include "server/app/server.h"
#include "tests/common/base/temp_folder.h"
#include "tests/common/spec/valid_spec.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Layout FiveChunks() {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("a.weight", {300});
  builder.AddBlock("b").AddTensor("b.weight", {200});
  return *builder.Build();
}

// A worker's Session, then its Exchange.
class TestWorker {
 public:
  TestWorker(const std::shared_ptr<grpc::Channel>& channel, std::string name)
      : stub_(v1::TrainingService::NewStub(channel)), name_(std::move(name)) {}
  ~TestWorker() {
    if (exchange_ != nullptr) exchange_context_->TryCancel();
    exchange_.reset();
    if (session_ != nullptr) session_context_.TryCancel();
    session_.reset();
  }

  // The first answer: welcome, or the error in Finish.
  bool Hello(const std::string& instance = "1") {
    session_ = stub_->Session(&session_context_);
    v1::SessionUp up;
    up.mutable_hello()->set_name(name_);
    up.mutable_hello()->set_instance(instance);
    up.mutable_hello()->set_device("cpu");
    up.mutable_hello()->add_data_sets()->set_name("fashion-mnist");
    up.mutable_hello()->add_architectures("mlp");
    v1::SessionDown down;
    return session_->Write(up) && session_->Read(&down) && down.has_welcome();
  }
  v1::SessionDown NextWord() {
    v1::SessionDown down;
    EXPECT_TRUE(session_->Read(&down));
    return down;
  }
  grpc::Status EndSession() {
    session_->WritesDone();
    v1::SessionDown down;
    while (session_->Read(&down)) {
    }
    return session_->Finish();
  }
  void OpenExchange(const std::string& job_id) {
    exchange_context_ = std::make_unique<grpc::ClientContext>();
    exchange_ = stub_->Exchange(exchange_context_.get());
    v1::WorkerFrame frame;
    frame.mutable_attach()->set_job_id(job_id);
    frame.mutable_attach()->set_worker(name_);
    frame.mutable_attach()->set_layout_digest(FiveChunks().digest());
    *frame.mutable_attach()->mutable_layout() = FiveChunks().ToProto();
    exchange_->Write(frame);
  }
  void SendBase() {
    v1::WorkerFrame frame;
    *frame.mutable_base_begin()->mutable_layout() = FiveChunks().ToProto();
    frame.mutable_base_begin()->set_config_json("{}");
    exchange_->Write(frame);
    const std::string zeros(500 * sizeof(float), '\0');
    v1::WorkerFrame chunk;
    Digester digester;
    uint64_t offset = 0;
    const ChunkGrid grid = DenseGrid(FiveChunks());
    for (uint32_t i = 0; i < grid.size(); ++i) {
      const std::string part = zeros.substr(offset, grid[i].count * sizeof(float));
      chunk.mutable_chunk()->set_kind(v1::PARAMETERS);
      chunk.mutable_chunk()->set_index(i);
      chunk.mutable_chunk()->set_digest(Digest64(part.data(), part.size()));
      chunk.set_payload(part);
      digester.AddUint64(chunk.chunk().digest());
      exchange_->Write(chunk);
    }
    v1::WorkerFrame end;
    end.mutable_base_end()->set_chunks(grid.size());
    end.mutable_base_end()->set_digest(digester.Finish());
    exchange_->Write(end);
  }
  // The next frame of this kind; others are skipped. False at the stream's end.
  bool Await(v1::ServerFrame::BodyCase kind) {
    while (exchange_->Read(&frame_)) {
      if (frame_.has_attached() && frame_.attached().send_base()) SendBase();
      if (frame_.has_round()) spec_ = frame_.round();
      if (frame_.body_case() == kind) return true;
    }
    return false;
  }
  v1::WorkerFrame ChunkFrame(uint32_t index) const {
    const ChunkGrid grid = *GridForRound(FiveChunks(), spec_);
    const std::vector<float> values(grid[index].count, 1.0F);
    const Bytes payload =
        (*FindReduction(spec_.reduction()))->Pack({.first_lane = grid[index].first_lane}, values, 1);
    v1::WorkerFrame frame;
    frame.mutable_chunk()->set_kind(v1::ROUND);
    frame.mutable_chunk()->set_round(spec_.round());
    frame.mutable_chunk()->set_index(index);
    frame.mutable_chunk()->set_digest(Digest64(payload.data(), payload.size()));
    frame.set_payload(payload.data(), payload.size());
    return frame;
  }
  void SendChunks(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) exchange_->Write(ChunkFrame(i));
  }
  void Contribute() {
    SendChunks(5);
    Digester digester;
    for (uint32_t i = 0; i < 5; ++i) digester.AddUint64(ChunkFrame(i).chunk().digest());
    v1::WorkerFrame frame;
    frame.mutable_end()->set_round(spec_.round());
    frame.mutable_end()->set_chunks(5);
    frame.mutable_end()->set_digest(digester.Finish());
    frame.mutable_end()->set_samples(8);
    exchange_->Write(frame);
  }
  void Cancel() {
    exchange_context_->TryCancel();
    EndExchange();
  }
  grpc::Status EndExchange() {
    while (exchange_->Read(&frame_)) {
    }
    const grpc::Status status = exchange_->Finish();
    exchange_.reset();
    return status;
  }
  auto& exchange() { return *exchange_; }
  const v1::ServerFrame& frame() const { return frame_; }

 private:
  std::unique_ptr<v1::TrainingService::Stub> stub_;
  const std::string name_;
  grpc::ClientContext session_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionUp, v1::SessionDown>> session_;
  std::unique_ptr<grpc::ClientContext> exchange_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerFrame, v1::ServerFrame>> exchange_;
  v1::ServerFrame frame_;
  v1::RoundSpec spec_;
};

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    ServerConfig config;
    config.listen = {"127.0.0.1", 0};
    config.state_dir = folder_.File("state");
    config.heartbeat = absl::Seconds(60);
    auto server = Server::Start(config);
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(server_->address().ToString(),
                                         grpc::InsecureChannelCredentials(), arguments);
    jobs_ = v1::JobService::NewStub(channel_);
  }
  std::string Submit(uint32_t workers, uint64_t rounds) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = ValidSpec();
    request.mutable_spec()->set_rounds(rounds);
    request.mutable_spec()->set_digest_every(1000);
    request.mutable_spec()->set_chunk_elements(128);
    request.mutable_spec()->mutable_workers()->set_count(workers);
    request.mutable_spec()->mutable_workers()->set_quorum(workers);
    request.mutable_spec()->mutable_workers()->set_minimum(1);
    request.mutable_spec()->mutable_workers()->set_round_deadline_ms(1);  // none waits for reports
    request.set_token("t");
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    const grpc::Status status = jobs_->SubmitJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job_id();
  }
  v1::JobStatus Job(const std::string& job_id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_job_id(job_id);
    v1::JobStatus status;
    EXPECT_TRUE(jobs_->GetJob(&context, request, &status).ok());
    return status;
  }
  v1::JobStatus WatchToTheEnd(const std::string& job_id) {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_job_id(job_id);
    const auto reader = jobs_->WatchJob(&context, request);
    v1::JobStatus status;
    while (reader->Read(&status)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
    return status;
  }
  std::string StartJob(TestWorker& a, TestWorker& b, uint64_t rounds) {
    EXPECT_TRUE(a.Hello() && b.Hello());
    const std::string job = Submit(2, rounds);
    EXPECT_EQ(a.NextWord().assignment().job_id(), job);
    EXPECT_EQ(b.NextWord().assignment().index(), 1);
    a.OpenExchange(job);
    EXPECT_TRUE(a.Await(v1::ServerFrame::kAttached));
    b.OpenExchange(job);
    EXPECT_TRUE(b.Await(v1::ServerFrame::kRound));
    EXPECT_TRUE(a.Await(v1::ServerFrame::kRound));
    return job;
  }

  TempFolder folder_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

TEST_F(ServiceTest, JobFromHelloToRelease) {
  TestWorker a(channel_, "a"), b(channel_, "b");
  const std::string job = StartJob(a, b, 2);
  for (int round = 0; round < 2; ++round) {
    a.Contribute();
    b.Contribute();
    const auto next = round == 0 ? v1::ServerFrame::kRound : v1::ServerFrame::kStop;
    EXPECT_TRUE(a.Await(next));
    EXPECT_TRUE(b.Await(next));
  }
  EXPECT_EQ(a.frame().stop().state(), v1::SUCCEEDED) << a.frame().stop().reason();
  EXPECT_TRUE(a.EndExchange().ok());
  EXPECT_EQ(WatchToTheEnd(job).state(), v1::SUCCEEDED);
  EXPECT_EQ(a.NextWord().release().job_id(), job);
  EXPECT_TRUE(a.EndSession().ok());
}

TEST_F(ServiceTest, ThreeOfFiveChunksThenCancelOrHalfCloseCountNothing) {
  TestWorker a(channel_, "a"), b(channel_, "b");
  const std::string job = StartJob(a, b, 1);
  a.SendChunks(3);
  a.Cancel();
  a.OpenExchange(job);
  ASSERT_TRUE(a.Await(v1::ServerFrame::kRound));
  a.SendChunks(3);
  a.exchange().WritesDone();
  EXPECT_TRUE(a.EndExchange().ok());
  b.Contribute();
  EXPECT_EQ(Job(job).round(), 0);
  a.OpenExchange(job);
  ASSERT_TRUE(a.Await(v1::ServerFrame::kRound));
  a.Contribute();
  EXPECT_TRUE(a.Await(v1::ServerFrame::kStop));
  const v1::JobStatus status = WatchToTheEnd(job);
  EXPECT_EQ(status.state(), v1::SUCCEEDED);
  EXPECT_EQ(status.samples(), 16);
}

TEST_F(ServiceTest, MessageAboveTheLimitIsNamedAndDoesNotHang) {
  TestWorker a(channel_, "a"), b(channel_, "b");
  StartJob(a, b, 1);
  v1::WorkerFrame frame = a.ChunkFrame(0);
  frame.set_payload(std::string(kMaxMessageBytes + 1, 'x'));
  a.exchange().Write(frame);
  const grpc::Status status = a.EndExchange();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
}

TEST_F(ServiceTest, ServersWordsReachAWorkerThatIsRefused) {
  TestWorker a(channel_, "a"), b(channel_, "b");
  StartJob(a, b, 1);
  v1::WorkerFrame frame;
  frame.mutable_base_begin();
  a.exchange().Write(frame);
  const grpc::Status status = a.EndExchange();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("not asked for"));
}

TEST_F(ServiceTest, AttachToUnknownJobAndChunkBeforeAttach) {
  TestWorker a(channel_, "a");
  a.OpenExchange("no-such-job");
  EXPECT_EQ(a.EndExchange().error_code(), grpc::StatusCode::NOT_FOUND);
  auto stub = v1::TrainingService::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = stub->Exchange(&context);
  v1::WorkerFrame frame;
  frame.mutable_end()->set_round(1);
  stream->Write(frame);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("attach first"));
}

// A unary call or a stream of one request with raw bytes; the answers' bytes are not looked at.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  wait();
  call->WritesDone(nullptr);
  wait();
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
  } while (wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return status;
}

TEST_F(ServiceTest, GarbageFramesAreRefused) {
  for (const std::string& garbage : {std::string("\xff\xff\xff\xff", 4), std::string("\x7a\x05x"),
                                     std::string(1000, 'z')}) {
    const grpc::Status status =
        CallRaw(channel_, "/tally.v1.TrainingService/Exchange", garbage);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  }
}

TEST_F(ServiceTest, HealthAndReflectionAreServed) {
  EXPECT_TRUE(CallRaw(channel_, "/grpc.health.v1.Health/Check", "").ok());
  // ServerReflectionRequest{list_services: ""}
  EXPECT_TRUE(CallRaw(channel_,
                      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      std::string("\x3a\x00", 2))
                  .ok());
}

TEST_F(ServiceTest, SecondDaemonOfOneNameIsRefused) {
  TestWorker first(channel_, "a"), second(channel_, "a");
  EXPECT_TRUE(first.Hello("1"));
  EXPECT_FALSE(second.Hello("2"));
  const grpc::Status status = second.EndSession();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr("in use by another daemon"));
}

v1::UploadModelRequest Part(const std::string& name, uint64_t size, const std::string& data) {
  v1::UploadModelRequest request;
  request.mutable_part()->set_name(name);
  request.mutable_part()->set_size(size);
  request.mutable_part()->set_data(data);
  return request;
}

class UploadTest : public ServiceTest {
 protected:
  grpc::Status Upload(const std::vector<v1::UploadModelRequest>& parts, bool cancel = false) {
    grpc::ClientContext context;
    v1::UploadModelResponse response;
    const auto writer = jobs_->UploadModel(&context, &response);
    for (const v1::UploadModelRequest& part : parts) writer->Write(part);
    if (cancel) context.TryCancel();
    writer->WritesDone();
    return writer->Finish();
  }
  std::vector<std::string> Left() {
    server_->Stop(absl::Seconds(5));
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("state/models"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
};

TEST_F(UploadTest, CutOnesLeaveNothing) {
  EXPECT_FALSE(Upload({Part("config.json", 2, "{}")}, /*cancel=*/true).ok());
  EXPECT_FALSE(Upload({Part("config.json", 2, "{}")}).ok()) << "between two files";
  EXPECT_EQ(Upload({Part("config.json", 2, "{}"), Part("model.safetensors", 100, "abc")})
                .error_code(),
            grpc::StatusCode::DATA_LOSS);
  EXPECT_FALSE(Upload({}).ok());
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(UploadTest, NamesFromOutsideAreRefused) {
  for (const char* name : {"../x", "/etc/x", ".hidden", "a/b"}) {
    const grpc::Status status = Upload({Part(name, 1, "x")});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
    EXPECT_THAT(status.error_message(), HasSubstr("plain file name"));
  }
  EXPECT_THAT(Left(), IsEmpty());
}

TEST_F(ServiceTest, PauseResumeDrainAndUndrainAreServed) {
  TestWorker a(channel_, "a");
  EXPECT_TRUE(a.Hello());
  const std::string job = Submit(2, 1);
  const auto call = [](auto method, auto& stub, const auto& request, auto& response) {
    grpc::ClientContext context;
    return (stub.*method)(&context, request, &response);
  };
  v1::PauseJobRequest pause;
  pause.set_job_id(job);
  pause.set_reason("lunch");
  v1::JobStatus status;
  EXPECT_TRUE(call(&v1::JobService::Stub::PauseJob, *jobs_, pause, status).ok());
  EXPECT_TRUE(status.held());
  EXPECT_EQ(Job(job).reason(), "held by a person: lunch");
  v1::ResumeJobRequest resume;
  resume.set_job_id(job);
  EXPECT_TRUE(call(&v1::JobService::Stub::ResumeJob, *jobs_, resume, status).ok());
  EXPECT_FALSE(status.held());
  resume.set_job_id("job-77");
  EXPECT_EQ(call(&v1::JobService::Stub::ResumeJob, *jobs_, resume, status).error_code(),
            grpc::StatusCode::NOT_FOUND);
  v1::DrainWorkerRequest drain;
  drain.set_name("a");
  v1::WorkerInfo worker;
  EXPECT_TRUE(call(&v1::JobService::Stub::DrainWorker, *jobs_, drain, worker).ok());
  EXPECT_TRUE(worker.drained());
  EXPECT_THAT(worker.address(), StartsWith("127.0.0.1:"));
  v1::UndrainWorkerRequest undrain;
  undrain.set_name("a");
  EXPECT_TRUE(call(&v1::JobService::Stub::UndrainWorker, *jobs_, undrain, worker).ok());
  EXPECT_FALSE(worker.drained());
  drain.set_name("nobody");
  EXPECT_EQ(call(&v1::JobService::Stub::DrainWorker, *jobs_, drain, worker).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

// With an hour's grace: sessions, exchanges, watches and logs must not wait for it.
TEST_F(ServiceTest, StreamsWithoutAnEndEndWhenTheServerStops) {
  TestWorker a(channel_, "a"), b(channel_, "b");
  const std::string job = StartJob(a, b, 5);
  grpc::ClientContext watching, logging;
  v1::WatchJobRequest watch;
  watch.set_job_id(job);
  const auto statuses = jobs_->WatchJob(&watching, watch);
  v1::JobStatus status;
  EXPECT_TRUE(statuses->Read(&status));
  v1::GetLogsRequest logs;
  logs.set_job_id(job);
  logs.set_follow(true);
  const auto events = jobs_->GetLogs(&logging, logs);
  v1::JobEvent event;
  EXPECT_TRUE(events->Read(&event));
  server_->Stop(absl::Hours(1));
  while (statuses->Read(&status)) {
  }
  while (events->Read(&event)) {
  }
  for (const grpc::Status& end :
       {a.EndSession(), b.EndSession(), a.EndExchange(), statuses->Finish(), events->Finish()}) {
    EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE) << end.error_message();
    EXPECT_THAT(end.error_message(), HasSubstr("the server is stopping"));
  }
}

TEST_F(ServiceTest, ResultOfAnUnfinishedJobIsRefused) {
  const std::string job = Submit(2, 1);
  grpc::ClientContext context;
  v1::DownloadModelRequest request;
  request.set_job_id(job);
  const auto reader = jobs_->DownloadModel(&context, request);
  v1::FilePart part;
  EXPECT_FALSE(reader->Read(&part));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServiceTest, WatchAndLogsEndWhenAJobIsCancelled) {
  const std::string job = Submit(2, 1);
  grpc::ClientContext watching;
  v1::WatchJobRequest watch;
  watch.set_job_id(job);
  const auto statuses = jobs_->WatchJob(&watching, watch);
  v1::JobStatus status;
  ASSERT_TRUE(statuses->Read(&status));
  EXPECT_EQ(status.state(), v1::PENDING);
  grpc::ClientContext following;
  v1::GetLogsRequest logs;
  logs.set_job_id(job);
  logs.set_follow(true);
  const auto events = jobs_->GetLogs(&following, logs);
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job_id(job);
  EXPECT_TRUE(jobs_->CancelJob(&context, request, &status).ok());
  while (statuses->Read(&status)) {
  }
  EXPECT_EQ(status.state(), v1::CANCELLED);
  EXPECT_TRUE(statuses->Finish().ok());
  v1::JobEvent event;
  while (events->Read(&event)) {
  }
  EXPECT_TRUE(events->Finish().ok());
}

TEST_F(ServiceTest, StopsWithOpenUploadsAndAWatch) {
  const std::string job = Submit(2, 1);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientWriter<v1::UploadModelRequest>>> uploads;
  v1::UploadModelResponse responses[3];
  for (v1::UploadModelResponse& response : responses) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    uploads.push_back(jobs_->UploadModel(contexts.back().get(), &response));
    uploads.back()->Write(Part("config.json", 100, "{"));
  }
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_job_id(job);
  const auto watch = jobs_->WatchJob(&context, request);
  v1::JobStatus status;
  ASSERT_TRUE(watch->Read(&status));
  server_->Stop(absl::Milliseconds(100));
  EXPECT_FALSE(watch->Read(&status));
  EXPECT_FALSE(watch->Finish().ok());
  for (const auto& upload : uploads) EXPECT_FALSE(upload->Finish().ok());
}

TEST_F(ServiceTest, ManyIdleSessionsAndAJob) {
  std::vector<std::unique_ptr<TestWorker>> idle;
  for (int i = 0; i < 256; ++i) {
    idle.push_back(std::make_unique<TestWorker>(channel_, absl::StrCat("idle-", i)));
    ASSERT_TRUE(idle.back()->Hello());
  }
  TestWorker a(channel_, "a"), b(channel_, "b");  // first by name
  const std::string job = StartJob(a, b, 1);
  a.Contribute();
  b.Contribute();
  EXPECT_EQ(WatchToTheEnd(job).state(), v1::SUCCEEDED);
}

}  // namespace
}  // namespace tally::testing
