// The `log` section that server.yaml and worker.yaml share.
#pragma once

#include "common/base/logging.h"
#include "common/config/config.h"

namespace tally {

// Keys level and format, both optional.
LoggingOptions ReadLogging(ConfigMap log);

}  // namespace tally
