// A worker's Exchange stream: frames in to its job's run, frames out from it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/round/job_run.h"
#include "server/service/pull_stream.h"

namespace tally {

// NOT_FOUND for a job that is not being run.
using FindRun = std::function<absl::StatusOr<std::shared_ptr<JobRun>>(const std::string& job_id)>;

class ExchangeStream final
    : public PullStream<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                        grpc::ByteBuffer> {
 public:
  explicit ExchangeStream(FindRun find_run) : find_run_(std::move(find_run)) {}
  // After Start.
  void BeginReading() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override;
  void OnCancel() override { Leave(); }

 private:
  class Link;
  Pulled Pull() override;
  void Ended() override { Leave(); }
  absl::Status Take(const grpc::ByteBuffer& buffer);
  absl::Status Attach(const v1::WorkerFrame& frame);
  void Leave();

  const FindRun find_run_;
  grpc::ByteBuffer incoming_;

  absl::Mutex mutex_;
  std::shared_ptr<JobRun> run_ ABSL_GUARDED_BY(mutex_);  // null before Attach and after Leave
  std::shared_ptr<Attachment> attachment_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tally
