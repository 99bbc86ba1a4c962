#include "server/service/watch_stream.h"

#include <utility>

#include "common/rpc/status.h"
#include "server/job/states.h"

namespace tally {

grpc::ServerWriteReactor<v1::JobStatus>* WatchStream::Serve(JobRegistry* registry,
                                                            const std::string& job_id,
                                                            OpenStreams* streams) {
  std::shared_ptr<WatchStream> stream(new WatchStream(registry));
  grpc::ServerWriteReactor<v1::JobStatus>* reactor = Start(stream, streams);
  const std::weak_ptr<PullStream> weak = stream;
  const absl::StatusOr<uint64_t> subscribed =
      registry->Subscribe(job_id, Interest::kStatus, [weak](const v1::JobStatus& status) {
        const auto held = std::static_pointer_cast<WatchStream>(weak.lock());
        if (held == nullptr) return;
        {
          absl::MutexLock lock(&held->mutex_);
          held->newest_ = status;
          held->told_ = true;
        }
        held->Wake();
      });
  absl::StatusOr<v1::JobStatus> now = registry->Get(job_id);
  if (!subscribed.ok() || !now.ok()) {
    stream->FinishWith(ToGrpcStatus(now.ok() ? subscribed.status() : now.status()));
    return reactor;
  }
  stream->subscription_ = *subscribed;
  {
    absl::MutexLock lock(&stream->mutex_);
    if (!stream->told_) stream->newest_ = *std::move(now);
  }
  stream->Wake();
  return reactor;
}

WatchStream::Pulled WatchStream::Pull() {
  Pulled pulled;
  if (last_sent_) {
    pulled.finish = grpc::Status::OK;
    return pulled;
  }
  absl::MutexLock lock(&mutex_);
  pulled.message = std::exchange(newest_, std::nullopt);
  last_sent_ = pulled.message.has_value() && IsTerminal(pulled.message->state());
  return pulled;
}

void WatchStream::Ended() {
  if (subscription_ != 0) registry_->Unsubscribe(subscription_);
}

grpc::ServerWriteReactor<v1::JobEvent>* LogStream::Serve(JobRegistry* registry,
                                                         const v1::GetLogsRequest& request,
                                                         OpenStreams* streams) {
  std::shared_ptr<LogStream> stream(new LogStream(registry, request));
  grpc::ServerWriteReactor<v1::JobEvent>* reactor = Start(stream, streams);
  const std::weak_ptr<PullStream> weak = stream;
  const absl::StatusOr<uint64_t> subscribed = registry->Subscribe(
      request.job_id(), Interest::kStatusAndEvents, [weak](const v1::JobStatus&) {
        if (const auto held = weak.lock(); held != nullptr) held->Wake();
      });
  if (!subscribed.ok()) {
    stream->FinishWith(ToGrpcStatus(subscribed.status()));
    return reactor;
  }
  stream->subscription_ = *subscribed;
  stream->Wake();
  return reactor;
}

LogStream::Pulled LogStream::Pull() {
  Pulled pulled;
  if (pending_.empty()) {
    // The state is read first: what a terminal job has logged is all there.
    const absl::StatusOr<v1::JobStatus> status = registry_->Get(request_.job_id());
    absl::StatusOr<std::vector<v1::JobEvent>> events =
        registry_->Events(request_.job_id(), after_);
    if (!status.ok() || !events.ok()) {
      pulled.finish = ToGrpcStatus(status.ok() ? events.status() : status.status());
      return pulled;
    }
    pending_ = {std::make_move_iterator(events->begin()), std::make_move_iterator(events->end())};
    if (pending_.empty()) {
      if (!request_.follow() || IsTerminal(status->state())) pulled.finish = grpc::Status::OK;
      return pulled;
    }
  }
  after_ = pending_.front().sequence();
  pulled.message = std::move(pending_.front());
  pending_.pop_front();
  return pulled;
}

void LogStream::Ended() {
  if (subscription_ != 0) registry_->Unsubscribe(subscription_);
}

}  // namespace tally
