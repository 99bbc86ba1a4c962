#include "server/service/training_service.h"

#include <memory>
#include <vector>

#include "server/service/exchange_stream.h"
#include "server/service/file_stream.h"
#include "server/service/peer.h"
#include "server/service/session_stream.h"

namespace tally {

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* TrainingServiceImpl::Exchange(
    grpc::CallbackServerContext*) {
  auto stream = std::make_shared<ExchangeStream>(
      [this](const std::string& job_id) { return supervisor_->FindRun(job_id); });
  auto* reactor = ExchangeStream::Start(stream, streams_);
  stream->BeginReading();
  return reactor;
}

grpc::ServerBidiReactor<v1::SessionUp, v1::SessionDown>* TrainingServiceImpl::Session(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<SessionStream>(supervisor_, AddressOfPeer(context->peer()));
  auto* reactor = SessionStream::Start(stream, streams_);
  stream->BeginReading();
  return reactor;
}

grpc::ServerWriteReactor<v1::FilePart>* TrainingServiceImpl::FetchModel(
    grpc::CallbackServerContext*, const v1::FetchModelRequest* request) {
  const absl::StatusOr<std::string> folder = models_->Find(request->digest());
  std::vector<std::string> names;
  if (folder.ok()) {
    absl::StatusOr<std::vector<std::string>> found = ModelFiles(*folder);
    if (!found.ok()) return FileStream::Serve(found.status(), {});
    names = *std::move(found);
  }
  return FileStream::Serve(folder, names);
}

}  // namespace tally
