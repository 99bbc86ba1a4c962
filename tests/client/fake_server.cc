#include "tests/client/fake_server.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/server_builder.h"
#include "gtest/gtest.h"

namespace tally::testing {

grpc::Status FakeService::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                    v1::SubmitJobResponse* response) {
  submissions.push_back(*request);
  std::string& job = job_of_token[request->token()];
  response->set_created(job.empty());
  if (job.empty()) job = absl::StrCat("job-", job_of_token.size());
  response->set_job_id(job);
  if (lost_replies-- > 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "reply lost");
  return error;
}

grpc::Status FakeService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                                   v1::ListJobsResponse* response) {
  *response = jobs;
  return error;
}

grpc::Status FakeService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                 v1::JobStatus* response) {
  for (const v1::JobStatus& job : jobs.jobs()) {
    if (job.job_id() == request->job_id()) {
      *response = job;
      return error;
    }
  }
  return grpc::Status(grpc::StatusCode::NOT_FOUND, "no job " + request->job_id());
}

grpc::Status FakeService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                                   grpc::ServerWriter<v1::JobStatus>* writer) {
  if (next_watch_ >= watches.size()) return error;
  for (const v1::JobStatus& job : watches[next_watch_]) writer->Write(job);
  if (hang) {
    on_watch();
    v1::JobStatus last = watches[next_watch_].back();
    while (!context->IsCancelled()) writer->Write(last);
  }
  return ++next_watch_ < watches.size() ? watch_error : error;
}

grpc::Status FakeService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                    v1::JobStatus* response) {
  cancelled = *request;
  response->set_job_id(request->job_id());
  response->set_state(v1::CANCELLED);
  return error;
}

grpc::Status FakeService::PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                                   v1::JobStatus* response) {
  paused = *request;
  response->set_state(v1::RUNNING);
  response->set_held(true);
  return error;
}

grpc::Status FakeService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                    v1::JobStatus* response) {
  resumed = *request;
  response->set_state(v1::PAUSED);
  return error;
}

grpc::Status FakeService::DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                                      v1::WorkerInfo* response) {
  drained = *request;
  response->set_name(request->name());
  if (workers.workers_size() > 0) *response = workers.workers(0);
  response->set_drained(true);
  return error;
}

grpc::Status FakeService::UndrainWorker(grpc::ServerContext*,
                                        const v1::UndrainWorkerRequest* request,
                                        v1::WorkerInfo* response) {
  undrained = *request;
  response->set_name(request->name());
  response->set_connected(true);
  return error;
}

grpc::Status FakeService::GetLogs(grpc::ServerContext*, const v1::GetLogsRequest*,
                                  grpc::ServerWriter<v1::JobEvent>* writer) {
  for (const v1::JobEvent& event : events) writer->Write(event);
  return error;
}

grpc::Status FakeService::UploadModel(grpc::ServerContext*,
                                      grpc::ServerReader<v1::UploadModelRequest>* reader,
                                      v1::UploadModelResponse* response) {
  v1::UploadModelRequest request;
  while (error.ok() && reader->Read(&request)) {
    const v1::FilePart& part = request.part();
    if (!part.name().empty()) upload_order.push_back(part.name());
    uploaded[upload_order.back()] += part.data();
    largest_part = std::max(largest_part, part.data().size());
  }
  response->set_digest("0123456789abcdef");
  return error;
}

grpc::Status FakeService::VerifyJob(grpc::ServerContext*, const v1::VerifyJobRequest* request,
                                    grpc::ServerWriter<v1::VerifyProgress>* writer) {
  verified = *request;
  for (const v1::VerifyProgress& progress : verification) writer->Write(progress);
  return verify_error;
}

grpc::Status FakeService::DownloadModel(grpc::ServerContext*,
                                        const v1::DownloadModelRequest* request,
                                        grpc::ServerWriter<v1::FilePart>* writer) {
  downloaded = *request;
  for (const v1::FilePart& part : parts) writer->Write(part);
  return download_error;
}

grpc::Status FakeService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                                      v1::ListWorkersResponse* response) {
  if (answers_until_free > 0 && --answers_until_free == 0) {
    workers.mutable_workers(0)->clear_job_id();
  }
  *response = workers;
  return error;
}

grpc::Status FakeService::GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                                     v1::GetVersionResponse* response) {
  response->set_version("9.8.7");
  response->set_status_address("127.0.0.1:8080");
  return error;
}

FakeServer::FakeServer() {
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  auto running = StartServer(builder, Address{"127.0.0.1", 0}, {});
  EXPECT_TRUE(running.ok()) << running.status();
  address = running->address.ToString();
  server = std::move(running->server);
}

}  // namespace tally::testing
