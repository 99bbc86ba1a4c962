// Streams that follow a job: its status after each change, or its log.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "proto/tally/v1/control.pb.h"
#include "server/job/registry.h"
#include "server/service/pull_stream.h"

namespace tally {

// The newest status whenever the client has taken the one before; a slow client skips some, never
// the last.
class WatchStream final
    : public PullStream<grpc::ServerWriteReactor<v1::JobStatus>, v1::JobStatus> {
 public:
  static grpc::ServerWriteReactor<v1::JobStatus>* Serve(JobRegistry* registry,
                                                        const std::string& job_id,
                                                        OpenStreams* streams);
  void OnCancel() override { FinishWith(grpc::Status::CANCELLED); }

 private:
  explicit WatchStream(JobRegistry* registry) : registry_(registry) {}
  Pulled Pull() override;
  void Ended() override;

  JobRegistry* const registry_;
  uint64_t subscription_ = 0;
  bool last_sent_ = false;  // of the pulling side

  absl::Mutex mutex_;
  std::optional<v1::JobStatus> newest_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // of a change, so of something newer than the start
};

class LogStream final : public PullStream<grpc::ServerWriteReactor<v1::JobEvent>, v1::JobEvent> {
 public:
  static grpc::ServerWriteReactor<v1::JobEvent>* Serve(JobRegistry* registry,
                                                       const v1::GetLogsRequest& request,
                                                       OpenStreams* streams);
  void OnCancel() override { FinishWith(grpc::Status::CANCELLED); }

 private:
  LogStream(JobRegistry* registry, v1::GetLogsRequest request)
      : registry_(registry), request_(std::move(request)) {}
  Pulled Pull() override;
  void Ended() override;

  JobRegistry* const registry_;
  const v1::GetLogsRequest request_;
  uint64_t subscription_ = 0;
  uint64_t after_ = 0;                // of the pulling side
  std::deque<v1::JobEvent> pending_;  // of the pulling side
};

}  // namespace tally
