#include "common/base/logging.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace tally {
namespace {

void AppendJsonEscaped(spdlog::string_view_t text, spdlog::memory_buf_t& out) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
    } else {
      out.push_back(c);
    }
  }
}

// The message as the inside of a JSON string; spdlog's own %v does not escape.
class JsonMessageFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    AppendJsonEscaped(message.payload, out);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessageFlag>();
  }
};

std::unique_ptr<spdlog::formatter> JsonFormatter(const std::string& program) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(
      spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonMessageFlag>('*');
  formatter->set_pattern("{\"time\":\"%Y-%m-%dT%H:%M:%S.%fZ\",\"level\":\"%l\",\"program\":\"" +
                         program + "\",\"pid\":%P,\"message\":\"%*\"}");
  return formatter;
}

}  // namespace

absl::Status StartLogging(const LoggingOptions& options, const std::string& program) {
  const auto level = spdlog::level::from_str(options.level);
  if (options.level != "debug" && options.level != "info" && options.level != "warn" &&
      options.level != "error") {
    return absl::InvalidArgumentError(
        absl::StrCat("log level: expected debug, info, warn or error, found ", options.level));
  }
  auto logger = std::make_shared<spdlog::logger>(
      program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (options.format == "json") {
    logger->set_formatter(JsonFormatter(program));
  } else if (options.format == "text") {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %-5l %n: %v");
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("log format: expected text or json, found ", options.format));
  }
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace tally
