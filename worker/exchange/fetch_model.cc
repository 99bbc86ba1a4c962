#include "worker/exchange/fetch_model.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/rpc/received_directory.h"
#include "common/rpc/status.h"
#include "proto/tally/v1/training.grpc.pb.h"

namespace tally {
namespace {

absl::Status FetchInto(const std::shared_ptr<grpc::Channel>& channel, const std::string& digest,
                       ReceivedDirectory& target) {
  const std::unique_ptr<v1::TrainingService::Stub> stub = v1::TrainingService::NewStub(channel);
  grpc::ClientContext context;
  v1::FetchModelRequest request;
  request.set_digest(digest);
  const auto stream = stub->FetchModel(&context, request);
  absl::Status added;
  v1::FilePart part;
  while (added.ok() && stream->Read(&part)) added = target.Add(part);
  if (!added.ok()) context.TryCancel();
  const absl::Status status = FromGrpcStatus(stream->Finish());
  TALLY_RETURN_IF_ERROR(added);
  TALLY_RETURN_IF_ERROR(WithContext(status, absl::StrCat("base model ", digest)));
  return target.Finish();
}

}  // namespace

absl::StatusOr<std::string> FetchModel(const std::shared_ptr<grpc::Channel>& channel,
                                       const std::string& digest, const std::string& cache) {
  const std::string models = absl::StrCat(cache, "/models");
  const std::string folder = absl::StrCat(models, "/", digest);
  struct stat info;
  if (::stat(folder.c_str(), &info) == 0) return folder;
  TALLY_RETURN_IF_ERROR(MakeFolders(models));
  const absl::StatusOr<std::unique_ptr<ReceivedDirectory>> target =
      ReceivedDirectory::Create(folder, /*replace=*/false);
  // This machine's fault, not that of the job's author.
  if (!target.ok()) return absl::InternalError(target.status().message());
  TALLY_RETURN_IF_ERROR(FetchInto(channel, digest, **target));
  return folder;
}

}  // namespace tally
