// tally-server: the aggregation server.
#include <cstdio>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/synchronization/notification.h"
#include "common/base/logging.h"
#include "common/base/stop_signals.h"
#include "common/rpc/grpc_log.h"
#include "server/app/server.h"

namespace {

// Exit codes of all Tally programs: docs/errors.md.
constexpr int kServerError = 1;
constexpr int kBadArguments = 4;

int Fail(int code, const absl::Status& status) {
  std::fprintf(stderr, "tally-server: %s\n", std::string(status.message()).c_str());
  return code;
}

int Serve(const tally::ServerConfig& config) {
  absl::StatusOr<std::unique_ptr<tally::Server>> server = tally::Server::Start(config);
  if (!server.ok()) return Fail(kServerError, server.status());
  spdlog::info("serving on {}", (*server)->address().ToString());
  if (!(*server)->status_address().empty()) {
    spdlog::info("status on http://{}/", (*server)->status_address());
  }
  absl::Notification stop;
  const tally::StopSignals signals([&] { stop.Notify(); });
  stop.WaitForNotification();
  spdlog::info("stopping; jobs go on with the next start (a second signal ends at once)");
  (*server)->Stop(absl::Seconds(2));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Tally's aggregation server");
  std::string path;
  bool check = false;
  app.add_option("config", path, "server.yaml; see docs/operating.md")->required();
  app.add_flag("--check", check, "read the configuration and the files it names, print it resolved, and exit");
  app.set_version_flag("--version", std::string("tally-server ") + TALLY_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kBadArguments;
  }
  const absl::StatusOr<tally::ServerConfig> config = tally::ReadServerConfig(
      path, check ? tally::ServerFiles::kRead : tally::ServerFiles::kUnread);
  if (!config.ok()) return Fail(kBadArguments, config.status());
  if (check) {
    std::fputs(config->resolved.c_str(), stdout);
    return 0;
  }
  if (const absl::Status logging = tally::StartLogging(config->log, "tally-server");
      !logging.ok()) {
    return Fail(kBadArguments, logging);
  }
  spdlog::info("tally-server {} with this configuration:\n{}", TALLY_VERSION, config->resolved);
  tally::RouteGrpcLog();
  tally::StopSignals::Block();
  return Serve(*config);
}
