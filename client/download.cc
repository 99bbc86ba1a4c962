#include <optional>

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
  std::optional<uint64_t> round;
  bool force = false;
};

// Trouble with our own disk is no connection or argument problem, whatever errno it was.
absl::Status AsFailure(const absl::Status& status) {
  if (status.ok() || absl::IsDataLoss(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

absl::Status Receive(Session& session, const Options& options, ReceivedDirectory& directory) {
  grpc::ClientContext context;
  session.Prepare(context);
  const Interrupt::Guard guard(session.interrupt(), context);
  v1::DownloadModelRequest request;
  request.set_job_id(options.job_id);
  if (options.round.has_value()) request.set_round(*options.round);
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
  TALLY_RETURN_IF_ERROR(Receive(session, options, *directory));
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
      AddCommand(line, "download", "Fetch a job's model", absl::InfiniteDuration(),
                 [&session, options] { return Download(session, *options); });
  AddJobArgument(*command, options->job_id);
  command->add_option("-o,--output", options->output, "Directory to make")->required();
  command->add_option("--round", options->round,
                      "The model after this training round; the job need not have ended (default: "
                      "the result of a job that has)");
  command->add_flag("--force", options->force, "Replace an earlier download");
}

}  // namespace tally
