// A JobService whose answers the test decides, on a port of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "grpcpp/server.h"
#include "proto/tally/v1/control.grpc.pb.h"

namespace tally::testing {

class FakeService : public v1::JobService::Service {
 public:
  // Failures to give before submitting works, each after the job was made: a lost reply.
  int lost_replies = 0;
  grpc::Status error = grpc::Status::OK;            // of every unary call
  std::vector<std::vector<v1::JobStatus>> watches;  // one list a WatchJob call
  grpc::Status watch_error = grpc::Status::OK;      // at the end of all but the last watch
  bool hang = false;                                // watches end with the client
  std::function<void()> on_watch = [] {};           // before a watch hangs
  std::vector<v1::JobEvent> events;
  std::vector<v1::FilePart> parts;  // of the download
  grpc::Status download_error = grpc::Status::OK;
  std::vector<v1::VerifyProgress> verification;
  grpc::Status verify_error = grpc::Status::OK;
  v1::ListJobsResponse jobs;
  v1::ListWorkersResponse workers;

  // What came.
  std::map<std::string, std::string> job_of_token;
  std::vector<v1::SubmitJobRequest> submissions;
  std::map<std::string, std::string> uploaded;  // name to bytes
  std::vector<std::string> upload_order;
  size_t largest_part = 0;
  v1::CancelJobRequest cancelled;
  v1::VerifyJobRequest verified;
  v1::DownloadModelRequest downloaded;
  v1::PauseJobRequest paused;
  v1::ResumeJobRequest resumed;
  v1::DrainWorkerRequest drained;
  v1::UndrainWorkerRequest undrained;
  int answers_until_free = 0;  // of ListWorkers, while which a drained worker keeps its job

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::JobStatus* response) override;
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobStatus>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::JobStatus* response) override;
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                        v1::JobStatus* response) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::JobStatus* response) override;
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                           v1::WorkerInfo* response) override;
  grpc::Status UndrainWorker(grpc::ServerContext*, const v1::UndrainWorkerRequest* request,
                             v1::WorkerInfo* response) override;
  grpc::Status GetLogs(grpc::ServerContext*, const v1::GetLogsRequest*,
                       grpc::ServerWriter<v1::JobEvent>* writer) override;
  grpc::Status UploadModel(grpc::ServerContext*, grpc::ServerReader<v1::UploadModelRequest>* reader,
                           v1::UploadModelResponse* response) override;
  grpc::Status VerifyJob(grpc::ServerContext*, const v1::VerifyJobRequest* request,
                         grpc::ServerWriter<v1::VerifyProgress>* writer) override;
  grpc::Status DownloadModel(grpc::ServerContext*, const v1::DownloadModelRequest* request,
                             grpc::ServerWriter<v1::FilePart>* writer) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* response) override;
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override;

 private:
  size_t next_watch_ = 0;
};

struct FakeServer {
  FakeServer();
  FakeService service;
  std::string address;
  std::unique_ptr<grpc::Server> server;
};

}  // namespace tally::testing
