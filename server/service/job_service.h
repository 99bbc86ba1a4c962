// The people's side of the server. Adapters only: convert, call, answer.
#pragma once

#include <string>

#include "proto/tally/v1/control.grpc.pb.h"
#include "server/audit/model_as_of.h"
#include "server/audit/task_threads.h"
#include "server/job/registry.h"
#include "server/service/open_streams.h"
#include "server/supervisor/supervisor.h"

namespace tally {

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  // All outlive the service. `status_address` is empty when the HTTP endpoint is off.
  JobServiceImpl(const std::string& state_dir, Supervisor* supervisor, JobRegistry* registry,
                 ModelStore* models, OpenStreams* streams, std::string status_address)
      : supervisor_(supervisor),
        registry_(registry),
        models_(models),
        streams_(streams),
        status_address_(std::move(status_address)),
        exports_(state_dir) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::SubmitJobResponse* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::JobStatus* response) override;
  grpc::ServerWriteReactor<v1::JobStatus>* WatchJob(grpc::CallbackServerContext* context,
                                                    const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::JobStatus* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::JobStatus* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::JobStatus* response) override;
  grpc::ServerWriteReactor<v1::VerifyProgress>* VerifyJob(
      grpc::CallbackServerContext* context, const v1::VerifyJobRequest* request) override;
  grpc::ServerWriteReactor<v1::JobEvent>* GetLogs(grpc::CallbackServerContext* context,
                                                  const v1::GetLogsRequest* request) override;
  grpc::ServerReadReactor<v1::UploadModelRequest>* UploadModel(
      grpc::CallbackServerContext* context, v1::UploadModelResponse* response) override;
  grpc::ServerWriteReactor<v1::FilePart>* DownloadModel(
      grpc::CallbackServerContext* context, const v1::DownloadModelRequest* request) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext* context,
                                          const v1::UndrainWorkerRequest* request,
                                          v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest* request,
                                       v1::GetVersionResponse* response) override;

 private:
  Supervisor* const supervisor_;
  JobRegistry* const registry_;
  ModelStore* const models_;
  OpenStreams* const streams_;
  const std::string status_address_;
  const ModelExports exports_;
  // Last, so that they wait for tasks that use what is above.
  TaskThreads verifications_{2, "verifications"};
  TaskThreads downloads_{2, "downloads of rounds"};
};

}  // namespace tally
