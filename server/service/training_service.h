// The workers' side of the server: streams handed to the supervisor and to the runs.
#pragma once

#include "proto/tally/v1/training.grpc.pb.h"
#include "server/service/open_streams.h"
#include "server/supervisor/supervisor.h"

namespace tally {

// Exchange is a raw method: its messages come and go as byte buffers, see common/wire.
using TrainingServiceBase = v1::TrainingService::WithRawCallbackMethod_Exchange<
    v1::TrainingService::WithCallbackMethod_Session<
        v1::TrainingService::WithCallbackMethod_FetchModel<v1::TrainingService::Service>>>;

class TrainingServiceImpl final : public TrainingServiceBase {
 public:
  // All outlive the service.
  TrainingServiceImpl(Supervisor* supervisor, ModelStore* models, OpenStreams* streams)
      : supervisor_(supervisor), models_(models), streams_(streams) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::SessionUp, v1::SessionDown>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<v1::FilePart>* FetchModel(grpc::CallbackServerContext* context,
                                                     const v1::FetchModelRequest* request) override;

 private:
  Supervisor* const supervisor_;
  ModelStore* const models_;
  OpenStreams* const streams_;
};

}  // namespace tally
