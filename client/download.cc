#include "absl/strings/str_cat.h"
#include "client/commands.h"
#include "client/json.h"
#include "client/text.h"
#include "common/base/status.h"
#include "common/rpc/received_directory.h"

namespace tally {
namespace {

struct Options {
  std::string job_id;
  std::string output;
  bool force = false;
};

// Trouble with our own disk is no connection or argument problem, whatever errno it was.
absl::Status AsFailure(const absl::Status& status) {
  if (status.ok() || absl::IsDataLoss(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

absl::Status Receive(Session& session, const std::string& job_id, ReceivedDirectory& directory) {
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  v1::DownloadModelRequest request;
  request.set_job_id(job_id);
  const auto reader = session.stub().DownloadModel(&context, request);
  v1::FilePart part;
  absl::Status added;
  while (added.ok() && reader->Read(&part)) added = directory.Add(part);
  if (!added.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  TALLY_RETURN_IF_ERROR(AsFailure(added));
  return session.ServerError(status);
}

absl::Status Download(Session& session, const Options& options) {
  TALLY_ASSIGN_OR_RETURN(auto directory, ReceivedDirectory::Create(options.output, options.force));
  TALLY_RETURN_IF_ERROR(Receive(session, options.job_id, *directory));
  TALLY_RETURN_IF_ERROR(AsFailure(directory->Finish()));
  if (session.options().json) {
    nlohmann::ordered_json json;
    json["directory"] = options.output;
    json["bytes"] = directory->bytes();
    session.out() << JsonLine(json) << std::endl;
    return absl::OkStatus();
  }
  session.out() << options.output << std::endl;
  session.err() << "downloaded " << ShortBytes(directory->bytes()) << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddDownload(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Session& session = line.session;
  CLI::App* command =
      AddCommand(line, "download", "Fetch a finished job's model", absl::InfiniteDuration(),
                 [&session, options] { return Download(session, *options); });
  AddJobArgument(*command, options->job_id);
  command->add_option("-o,--output", options->output, "Directory to make")->required();
  command->add_flag("--force", options->force, "Replace an earlier download");
}

}  // namespace tally
