#include "common/rpc/grpc_log.h"

#include "grpc/support/log.h"
#include "spdlog/spdlog.h"

namespace tally {

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    spdlog::debug("grpc: {} ({}:{})", line->message, line->file, line->line);
  });
}

}  // namespace tally
