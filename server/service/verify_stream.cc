#include "server/service/verify_stream.h"

#include <utility>

#include "common/base/clock.h"
#include "common/rpc/status.h"

namespace tally {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(200);

}  // namespace

grpc::ServerWriteReactor<v1::VerifyProgress>* VerifyStream::Serve(
    const absl::StatusOr<VerifyOptions>& options, TaskThreads* threads, OpenStreams* streams) {
  std::shared_ptr<VerifyStream> stream(new VerifyStream);
  grpc::ServerWriteReactor<v1::VerifyProgress>* reactor = Start(stream, streams);
  absl::Status started = options.status();
  if (started.ok()) {
    started = threads->Start(options->job_id, [stream, options = *options] {
      const absl::Status status = VerifyJobFolder(
          options, [&](const v1::VerifyProgress& progress) { return stream->Take(progress); });
      return [stream, status] { stream->Close(status); };
    });
  }
  if (!started.ok()) stream->FinishWith(ToGrpcStatus(started));
  return reactor;
}

bool VerifyStream::Take(const v1::VerifyProgress& progress) {
  const absl::Duration now = Clock::System().Steady();
  const bool due = progress.done() || now - told_at_ >= kInterval;
  {
    absl::MutexLock lock(&mutex_);
    v1::VerifyProgress merged = progress;
    if (pending_.has_value()) {
      *merged.mutable_differences() = pending_->differences();
      merged.mutable_differences()->MergeFrom(progress.differences());
    }
    pending_ = std::move(merged);
    due_ = due_ || due;
  }
  if (due) {
    told_at_ = now;
    Wake();
  }
  return !ended_;
}

void VerifyStream::Close(const absl::Status& status) {
  if (!status.ok()) return FinishWith(ToGrpcStatus(status));
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  Wake();
}

VerifyStream::Pulled VerifyStream::Pull() {
  Pulled pulled;
  absl::MutexLock lock(&mutex_);
  if (due_) pulled.message = std::exchange(pending_, std::nullopt);
  if (!pulled.message.has_value() && closed_) pulled.finish = grpc::Status::OK;
  due_ = false;
  return pulled;
}

}  // namespace tally
