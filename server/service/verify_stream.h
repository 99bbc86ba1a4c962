// A verification on its own thread, its progress streamed to the client.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tally/v1/control.pb.h"
#include "server/audit/task_threads.h"
#include "server/audit/verify.h"
#include "server/service/pull_stream.h"

namespace tally {

// What has become known while the client takes a message goes into the next one; there are at most
// about five a second. The verification stops when the client has gone.
class VerifyStream final
    : public PullStream<grpc::ServerWriteReactor<v1::VerifyProgress>, v1::VerifyProgress> {
 public:
  // `threads`, which outlives the stream, runs the verification; its refusal ends the stream.
  static grpc::ServerWriteReactor<v1::VerifyProgress>* Serve(
      const absl::StatusOr<VerifyOptions>& options, TaskThreads* threads, OpenStreams* streams);
  void OnCancel() override { FinishWith(grpc::Status::CANCELLED); }

 private:
  VerifyStream() = default;
  // Of the verification's thread. False once the stream has ended.
  bool Take(const v1::VerifyProgress& progress);
  // It is over; ends the stream, after what is pending if it went well.
  void Close(const absl::Status& status);
  Pulled Pull() override;
  void Ended() override { ended_ = true; }

  std::atomic<bool> ended_{false};
  absl::Duration told_at_ = -absl::InfiniteDuration();  // of the verification's thread
  absl::Mutex mutex_;
  std::optional<v1::VerifyProgress> pending_ ABSL_GUARDED_BY(mutex_);
  bool due_ ABSL_GUARDED_BY(mutex_) = false;  // what is pending may go
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tally
