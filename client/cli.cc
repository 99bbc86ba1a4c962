#include "client/cli.h"

#include <algorithm>
#include <functional>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "client/commands.h"
#include "common/base/status.h"

namespace tally {
namespace {

constexpr size_t kMaxJobId = 200;

std::string CheckJobId(const std::string& id) {
  const bool fit = !id.empty() && id.size() <= kMaxJobId &&
                   std::all_of(id.begin(), id.end(),
                               [](unsigned char c) { return absl::ascii_isprint(c) && c != '/'; });
  return fit ? "" : "expected a job's id, as `tally list` shows it";
}

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--server", options.server, "HOST:PORT of the server")
      ->envname("TALLY_SERVER")
      ->capture_default_str();
  app.add_option("--ca", options.tls.ca, "PEM file of who signs the server's certificate");
  app.add_option("--cert", options.tls.certificate, "PEM file of one's own certificate");
  app.add_option("--key", options.tls.key, "PEM file of its private key");
  app.add_option("--timeout", options.timeout,
                 "At most this long, in seconds or like 5m (default: 30s for short commands, no "
                 "limit for submit, watch, logs, verify, download and drain)");
  app.add_flag("--json", options.json, "Print JSON, for programs");
  app.set_version_flag("--version", std::string("tally ") + TALLY_VERSION);
}

void AddCommands(CommandLine line) {
  AddSubmit(line);
  AddList(line);
  AddStatus(line);
  AddWatch(line);
  AddPause(line);
  AddResume(line);
  AddCancel(line);
  AddLogs(line);
  AddDownload(line);
  AddVerify(line);
  AddWorkers(line);
  AddVersion(line);
  // None at all is dealt with in RunCli: CLI11 would answer `tally lst` with "required", too.
  line.app.require_subcommand(0, 1);
}

// Help and version are data and no error; everything else that CLI11 throws is a bad argument.
ExitCode ReportParse(const CLI::App& app, const CLI::ParseError& error, Console& console) {
  const bool fine = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
  app.exit(error, console.out, console.err);
  return fine ? ExitCode::kOk : ExitCode::kBadArguments;
}

}  // namespace

CLI::App* AddCommand(CommandLine& line, const std::string& name, const std::string& help,
                     absl::Duration time, std::function<absl::Status()> run) {
  CLI::App* command = line.app.add_subcommand(name, help);
  command->fallthrough();  // `tally list --json` as well as `tally --json list`
  command->footer("--server, --json, --timeout and the TLS options of `tally --help` go here, too.");
  command->callback([command, &session = line.session, &chosen = line.chosen, time,
                     run = std::move(run)] {
    // CLI11 runs it also for a command below this one, which is the one asked for.
    if (!command->get_subcommands().empty()) return;
    chosen = [&session, time, run] {
      TALLY_RETURN_IF_ERROR(session.Open(time));
      return run();
    };
  });
  return command;
}

void AddJobArgument(CLI::App& command, std::string& job_id) {
  command.add_option("JOB", job_id, "The job's id")->required()->check(CheckJobId);
}

ExitCode RunCli(const std::vector<std::string>& arguments, Console console, Interrupt& interrupt) {
  CLI::App app("Submits fine-tuning jobs to a Tally server and reads their results.", "tally");
  Session session({}, console, interrupt);
  AddGlobalOptions(app, session.options());
  std::function<absl::Status()> chosen;
  AddCommands({app, session, chosen});
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return ReportParse(app, error, console);
  }
  if (chosen == nullptr) {
    console.err << app.help() << std::flush;
    return ExitCode::kBadArguments;
  }
  absl::Status status = chosen();
  console.out.flush();
  if (status.ok() && !console.out) {
    status = absl::ResourceExhaustedError("standard output: writing failed; the output is not whole");
  }
  if (!status.ok()) console.err << "tally: " << status.message() << std::endl;
  return ExitCodeOf(status);
}

}  // namespace tally
