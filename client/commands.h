// The commands, one file each. An Add function declares a command's arguments; when it is the one
// asked for, `chosen` becomes what to run.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/session.h"

namespace tally {

struct CommandLine {
  CLI::App& app;
  Session& session;
  std::function<absl::Status()>& chosen;
};

// `run` has the Session open for at most `time` (a --timeout goes before).
CLI::App* AddCommand(CommandLine& line, const std::string& name, const std::string& help,
                     absl::Duration time, std::function<absl::Status()> run);
// A required JOB argument, checked to be fit for a message.
void AddJobArgument(CLI::App& command, std::string& job_id);

// Time for commands that ask one thing.
inline constexpr absl::Duration kAskTime = absl::Seconds(30);

void AddSubmit(CommandLine& line);
void AddList(CommandLine& line);
void AddStatus(CommandLine& line);
void AddWatch(CommandLine& line);
void AddCancel(CommandLine& line);
void AddPause(CommandLine& line);
void AddResume(CommandLine& line);
void AddLogs(CommandLine& line);
void AddDownload(CommandLine& line);
void AddVerify(CommandLine& line);
void AddWorkers(CommandLine& line);
void AddVersion(CommandLine& line);

// Below `workers`.
void AddDrain(CommandLine& workers);
void AddUndrain(CommandLine& workers);

}  // namespace tally
