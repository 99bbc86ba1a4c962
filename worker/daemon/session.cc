#include "worker/daemon/session.h"

#include <utility>

#include "common/rpc/duplex_stream.h"

namespace tally {

class Session::Stream final
    : public DuplexStream<v1::SessionUp, v1::SessionDown, v1::SessionDown> {
  absl::StatusOr<v1::SessionDown> Accept(const v1::SessionDown& incoming) override {
    return incoming;
  }
};

Session::Session(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::TrainingService::NewStub(channel)), stream_(std::make_unique<Stream>()) {}

std::shared_ptr<Session> Session::Open(const std::shared_ptr<grpc::Channel>& channel,
                                       const v1::Hello& hello) {
  std::shared_ptr<Session> session(new Session(channel));
  session->stub_->async()->Session(session->stream_->context(), session->stream_.get());
  session->stream_->Begin();
  v1::SessionUp up;
  *up.mutable_hello() = hello;
  session->Send(std::move(up));
  return session;
}

Session::~Session() { stream_->CancelAndWait(); }
void Session::Send(v1::SessionUp up) { stream_->Send(std::move(up)); }
absl::StatusOr<std::optional<v1::SessionDown>> Session::Receive() { return stream_->Receive(); }
void Session::Cancel() { stream_->Cancel(); }

}  // namespace tally
