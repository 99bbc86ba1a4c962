#include "common/config/logging_section.h"

namespace tally {

LoggingOptions ReadLogging(ConfigMap log) {
  LoggingOptions options;
  options.level = log.OneOf("level", {"debug", "info", "warn", "error"}, options.level);
  options.format = log.OneOf("format", {"text", "json"}, options.format);
  return options;
}

}  // namespace tally
