#pragma once

namespace tally {

// Sends gRPC's own log lines to the default logger as debug messages: what they say of failures
// reaches people through statuses. Call it before the first channel or server.
void RouteGrpcLog();

}  // namespace tally
