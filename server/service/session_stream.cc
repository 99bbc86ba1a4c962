#include "server/service/session_stream.h"

#include <utility>

#include "common/base/status.h"
#include "common/rpc/status.h"

namespace tally {

// The supervisor's handle on the stream; does nothing once the stream is gone.
class SessionStream::Link final : public SessionLink {
 public:
  explicit Link(std::weak_ptr<PullStream> stream) : stream_(std::move(stream)) {}

  void Send(v1::SessionDown down) override {
    if (const auto stream = stream_.lock(); stream != nullptr) {
      static_cast<SessionStream&>(*stream).Push(std::move(down));
    }
  }
  void Close(const absl::Status& status) override {
    if (const auto stream = stream_.lock(); stream != nullptr) {
      static_cast<SessionStream&>(*stream).FinishWith(ToGrpcStatus(status));
    }
  }

 private:
  const std::weak_ptr<PullStream> stream_;
};

void SessionStream::OnReadDone(bool ok) {
  if (!ok) {
    Leave();
    return FinishWith(grpc::Status::OK);
  }
  if (const absl::Status taken = Take(incoming_); !taken.ok()) {
    Leave();
    return FinishWith(ToGrpcStatus(taken));
  }
  StartRead(&incoming_);
}

absl::Status SessionStream::Take(const v1::SessionUp& up) {
  if (hello_.name().empty()) {
    if (!up.has_hello()) return absl::InvalidArgumentError("session: expected hello first");
    auto link = std::make_shared<Link>(weak_from_this());
    TALLY_RETURN_IF_ERROR(supervisor_->OnHello(up.hello(), peer_, link));
    hello_ = up.hello();
    absl::MutexLock lock(&mutex_);
    link_ = std::move(link);
    return absl::OkStatus();
  }
  switch (up.body_case()) {
    case v1::SessionUp::kHeartbeat:
      return supervisor_->OnHeartbeat(hello_, up.heartbeat());
    case v1::SessionUp::kEvent:
      supervisor_->OnEvent(hello_, up.event());
      return absl::OkStatus();
    case v1::SessionUp::kLeft:
      supervisor_->OnLeft(hello_, up.left());
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("session: a message that is not expected here");
  }
}

void SessionStream::Push(v1::SessionDown down) {
  {
    absl::MutexLock lock(&mutex_);
    outbox_.push_back(std::move(down));
  }
  Wake();
}

SessionStream::Pulled SessionStream::Pull() {
  absl::MutexLock lock(&mutex_);
  if (outbox_.empty()) return {};
  Pulled pulled;
  pulled.message = std::move(outbox_.front());
  outbox_.pop_front();
  return pulled;
}

void SessionStream::Leave() {
  std::shared_ptr<Link> link;
  {
    absl::MutexLock lock(&mutex_);
    link = std::exchange(link_, nullptr);
  }
  if (link != nullptr) supervisor_->OnSessionEnd(hello_, link.get());
}

}  // namespace tally
