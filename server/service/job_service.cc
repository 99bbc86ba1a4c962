#include "server/service/job_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/status.h"
#include "server/job/states.h"
#include "server/service/file_stream.h"
#include "server/service/verify_stream.h"
#include "server/service/watch_stream.h"

namespace tally {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

// Fills `response` from `result` if there is one.
template <typename T>
grpc::ServerUnaryReactor* AnswerWith(grpc::CallbackServerContext* context,
                                     absl::StatusOr<T> result, T* response) {
  if (result.ok()) *response = *std::move(result);
  return Answer(context, result.status());
}

// The job, if it has anything in its folder to be read.
absl::StatusOr<v1::JobStatus> FindBegun(const JobRegistry& registry, const std::string& job_id) {
  TALLY_ASSIGN_OR_RETURN(v1::JobStatus job, registry.Get(job_id));
  if (job.started_at() != 0) return job;
  return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " is ", JobStateName(job.state()),
                                                    " and has not begun: there is no model of it"));
}

class UploadStream final : public grpc::ServerReadReactor<v1::UploadModelRequest> {
 public:
  UploadStream(ModelStore* models, v1::UploadModelResponse* response) : response_(response) {
    absl::StatusOr<std::unique_ptr<ModelUpload>> upload = models->Begin();
    if (!upload.ok()) {
      End(upload.status());
      return;
    }
    upload_ = *std::move(upload);
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (finished_) return;
    if (!ok) return cancelled_ ? End(absl::CancelledError("upload cancelled")) : Complete();
    if (const absl::Status taken = upload_->Take(request_.part()); !taken.ok()) return End(taken);
    StartRead(&request_);
  }
  // May come after the read that ends; a cut upload is then refused for what it lacks.
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  void Complete() {
    absl::StatusOr<v1::UploadModelResponse> done = upload_->Finish();
    if (done.ok()) *response_ = *std::move(done);
    End(done.status());
  }
  void End(const absl::Status& status) {
    finished_ = true;
    upload_.reset();
    Finish(ToGrpcStatus(status));
  }

  v1::UploadModelResponse* const response_;
  v1::UploadModelRequest request_;
  std::unique_ptr<ModelUpload> upload_;
  std::atomic<bool> cancelled_{false};
  bool finished_ = false;
};

}  // namespace

grpc::ServerUnaryReactor* JobServiceImpl::SubmitJob(grpc::CallbackServerContext* context,
                                                    const v1::SubmitJobRequest* request,
                                                    v1::SubmitJobResponse* response) {
  const absl::StatusOr<JobRegistry::Submitted> submitted =
      supervisor_->Submit(request->spec(), request->token());
  if (submitted.ok()) {
    response->set_job_id(submitted->job_id);
    response->set_created(submitted->created);
  }
  return Answer(context, submitted.status());
}

grpc::ServerUnaryReactor* JobServiceImpl::ListJobs(grpc::CallbackServerContext* context,
                                                   const v1::ListJobsRequest*,
                                                   v1::ListJobsResponse* response) {
  for (v1::JobStatus& status : registry_->List()) *response->add_jobs() = std::move(status);
  return Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* JobServiceImpl::GetJob(grpc::CallbackServerContext* context,
                                                 const v1::GetJobRequest* request,
                                                 v1::JobStatus* response) {
  return AnswerWith(context, registry_->Get(request->job_id()), response);
}

grpc::ServerWriteReactor<v1::JobStatus>* JobServiceImpl::WatchJob(
    grpc::CallbackServerContext*, const v1::WatchJobRequest* request) {
  return WatchStream::Serve(registry_, request->job_id(), streams_);
}

grpc::ServerUnaryReactor* JobServiceImpl::CancelJob(grpc::CallbackServerContext* context,
                                                    const v1::CancelJobRequest* request,
                                                    v1::JobStatus* response) {
  const std::string reason = request->reason().empty() ? "cancelled by a user" : request->reason();
  return AnswerWith(context, supervisor_->Cancel(request->job_id(), reason), response);
}

grpc::ServerUnaryReactor* JobServiceImpl::PauseJob(grpc::CallbackServerContext* context,
                                                   const v1::PauseJobRequest* request,
                                                   v1::JobStatus* response) {
  return AnswerWith(context, supervisor_->Pause(request->job_id(), request->reason()), response);
}

grpc::ServerUnaryReactor* JobServiceImpl::ResumeJob(grpc::CallbackServerContext* context,
                                                    const v1::ResumeJobRequest* request,
                                                    v1::JobStatus* response) {
  return AnswerWith(context, supervisor_->Resume(request->job_id()), response);
}

grpc::ServerWriteReactor<v1::JobEvent>* JobServiceImpl::GetLogs(
    grpc::CallbackServerContext*, const v1::GetLogsRequest* request) {
  return LogStream::Serve(registry_, *request, streams_);
}

grpc::ServerReadReactor<v1::UploadModelRequest>* JobServiceImpl::UploadModel(
    grpc::CallbackServerContext*, v1::UploadModelResponse* response) {
  return new UploadStream(models_, response);
}

grpc::ServerWriteReactor<v1::FilePart>* JobServiceImpl::DownloadModel(
    grpc::CallbackServerContext*, const v1::DownloadModelRequest* request) {
  const std::vector<std::string> names = {"config.json", "model.safetensors"};
  if (!request->has_round()) {
    return FileStream::Serve(supervisor_->ResultFolder(request->job_id()), names);
  }
  const absl::StatusOr<v1::JobStatus> job = FindBegun(*registry_, request->job_id());
  if (!job.ok()) return FileStream::Serve(job.status(), names);
  const std::string folder = supervisor_->FolderOf(request->job_id());
  const auto make = [this, request = *request, folder](const FileStream::GoOn& go_on) {
    return exports_.Make(request.job_id(), folder, request.round(), go_on);
  };
  return FileStream::ServeMade(make, names, &downloads_, streams_);
}

grpc::ServerWriteReactor<v1::VerifyProgress>* JobServiceImpl::VerifyJob(
    grpc::CallbackServerContext*, const v1::VerifyJobRequest* request) {
  const absl::StatusOr<v1::JobStatus> job = FindBegun(*registry_, request->job_id());
  if (!job.ok()) return VerifyStream::Serve(job.status(), &verifications_, streams_);
  VerifyOptions options;
  options.job_id = request->job_id();
  options.job_folder = supervisor_->FolderOf(request->job_id());
  if (request->has_from_round()) options.from_round = request->from_round();
  if (job->state() == v1::SUCCEEDED) options.expected_step = job->spec().rounds();
  return VerifyStream::Serve(options, &verifications_, streams_);
}

grpc::ServerUnaryReactor* JobServiceImpl::ListWorkers(grpc::CallbackServerContext* context,
                                                      const v1::ListWorkersRequest*,
                                                      v1::ListWorkersResponse* response) {
  for (v1::WorkerInfo& worker : supervisor_->Workers()) {
    *response->add_workers() = std::move(worker);
  }
  return Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* JobServiceImpl::DrainWorker(grpc::CallbackServerContext* context,
                                                      const v1::DrainWorkerRequest* request,
                                                      v1::WorkerInfo* response) {
  return AnswerWith(context, supervisor_->Drain(request->name(), request->reason()), response);
}

grpc::ServerUnaryReactor* JobServiceImpl::UndrainWorker(grpc::CallbackServerContext* context,
                                                        const v1::UndrainWorkerRequest* request,
                                                        v1::WorkerInfo* response) {
  return AnswerWith(context, supervisor_->Undrain(request->name()), response);
}

grpc::ServerUnaryReactor* JobServiceImpl::GetVersion(grpc::CallbackServerContext* context,
                                                     const v1::GetVersionRequest*,
                                                     v1::GetVersionResponse* response) {
  response->set_version(TALLY_VERSION);
  response->set_status_address(status_address_);
  return Answer(context, absl::OkStatus());
}

}  // namespace tally
