#include "client/commands.h"
#include "client/watcher.h"

namespace tally {

void AddWatch(CommandLine& line) {
  auto job_id = std::make_shared<std::string>();
  Session& session = line.session;
  CLI::App* command = AddCommand(line, "watch", "Follow a job to its end", absl::InfiniteDuration(),
                                 [&session, job_id] { return WatchToTheEnd(session, *job_id); });
  AddJobArgument(*command, *job_id);
}

}  // namespace tally
