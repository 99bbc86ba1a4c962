#include "server/service/exchange_stream.h"

#include <utility>

#include "common/base/status.h"
#include "common/rpc/status.h"
#include "common/wire/frame.h"

namespace tally {

// The run's handle on the stream; does nothing once the stream is gone.
class ExchangeStream::Link final : public WorkerLink {
 public:
  explicit Link(std::weak_ptr<PullStream> stream) : stream_(std::move(stream)) {}
  void Wake() override {
    if (const auto stream = stream_.lock(); stream != nullptr) stream->Wake();
  }

 private:
  const std::weak_ptr<PullStream> stream_;
};

void ExchangeStream::OnReadDone(bool ok) {
  if (!ok) {
    // The worker has closed its side, or the stream is cut: what it sent is what counts.
    Leave();
    return FinishWith(grpc::Status::OK);
  }
  if (const absl::Status taken = Take(incoming_); !taken.ok()) {
    Leave();
    return FinishWith(ToGrpcStatus(taken));
  }
  StartRead(&incoming_);
}

absl::Status ExchangeStream::Take(const grpc::ByteBuffer& buffer) {
  v1::WorkerFrame frame;
  TALLY_ASSIGN_OR_RETURN(const Payload payload, DecodeFrame(buffer, &frame));
  std::shared_ptr<JobRun> run;
  std::shared_ptr<Attachment> attachment;
  {
    absl::MutexLock lock(&mutex_);
    run = run_;
    attachment = attachment_;
  }
  if (run == nullptr) return Attach(frame);
  return run->OnFrame(attachment, frame, payload, buffer.Length());
}

absl::Status ExchangeStream::Attach(const v1::WorkerFrame& frame) {
  if (!frame.has_attach()) return absl::InvalidArgumentError("exchange: expected attach first");
  TALLY_ASSIGN_OR_RETURN(std::shared_ptr<JobRun> run, find_run_(frame.attach().job_id()));
  TALLY_ASSIGN_OR_RETURN(std::shared_ptr<Attachment> attachment,
                         run->Attach(frame.attach(), std::make_shared<Link>(weak_from_this())));
  {
    absl::MutexLock lock(&mutex_);
    run_ = std::move(run);
    attachment_ = std::move(attachment);
  }
  Wake();  // what the run has queued before run_ was set
  return absl::OkStatus();
}

ExchangeStream::Pulled ExchangeStream::Pull() {
  std::shared_ptr<JobRun> run;
  std::shared_ptr<Attachment> attachment;
  {
    absl::MutexLock lock(&mutex_);
    run = run_;
    attachment = attachment_;
  }
  if (run == nullptr) return {};
  Outgoing next = run->Next(attachment);
  Pulled pulled;
  pulled.message = std::move(next.frame);
  if (next.finish.has_value()) pulled.finish = ToGrpcStatus(*next.finish);
  return pulled;
}

void ExchangeStream::Leave() {
  std::shared_ptr<JobRun> run;
  std::shared_ptr<Attachment> attachment;
  {
    absl::MutexLock lock(&mutex_);
    run = std::exchange(run_, nullptr);
    attachment = std::exchange(attachment_, nullptr);
  }
  if (run != nullptr) run->Detach(attachment);
}

}  // namespace tally
