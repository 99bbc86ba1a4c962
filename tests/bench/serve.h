// A benchmark's server process: serves until SIGTERM.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/notification.h"
#include "common/base/stop_signals.h"
#include "common/rpc/server_builder.h"

namespace tally::bench {

// Prints "PORT n" of a free port on loopback and serves; ends the process on SIGTERM, without waiting
// for its streams. Returns an exit code if it cannot start. StopSignals::Block() before any thread.
inline int ServeUntilSigterm(grpc::ServerBuilder& builder) {
  absl::StatusOr<RunningServer> server = StartServer(builder, {"127.0.0.1", 0}, {});
  if (!server.ok()) return 1;
  std::printf("PORT %u\n", server->address.port);
  std::fflush(stdout);
  absl::Notification stop;
  const StopSignals signals([&] { stop.Notify(); });
  stop.WaitForNotification();
  std::_Exit(0);
}

}  // namespace tally::bench
