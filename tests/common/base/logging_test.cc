#include "common/base/logging.h"

#include "absl/strings/match.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// What one call logs on standard error under these options.
template <typename Log>
std::string Logged(const LoggingOptions& options, Log log) {
  ::testing::internal::CaptureStderr();
  const absl::Status status = StartLogging(options, "tally-test");
  EXPECT_TRUE(status.ok()) << status;
  log();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Logging, JsonLinesEscapeTheMessage) {
  const std::string line = Logged({.level = "info", .format = "json"}, [] {
    spdlog::info("{}", "say \"hi\" \\ \n\t\x01 é");
  });
  EXPECT_THAT(line, HasSubstr(R"("level":"info","program":"tally-test","pid":)"));
  EXPECT_THAT(line, EndsWith("\"message\":\"say \\\"hi\\\" \\\\ \\u000a\\u0009\\u0001 é\"}\n"));
  EXPECT_THAT(line.substr(0, line.find(",\"level")),
              MatchesRegex(R"(."time":"....-..-..T..:..:..\.......Z")"));
}

TEST(Logging, TextIsForPeople) {
  const std::string line =
      Logged({.level = "debug", .format = "text"}, [] { spdlog::debug("round {} closed", 7); });
  EXPECT_THAT(line, EndsWith("debug tally-test: round 7 closed\n"));
}

TEST(Logging, LevelHolds) {
  const std::string lines = Logged({.level = "warn", .format = "text"}, [] {
    spdlog::info("quiet");
    spdlog::warn("loud");
  });
  EXPECT_FALSE(absl::StrContains(lines, "quiet"));
  EXPECT_THAT(lines, HasSubstr("loud"));
}

TEST(Logging, UnknownOptionsAreRefused) {
  EXPECT_THAT(StartLogging({.level = "loud"}, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "log level: expected debug, info, warn or error, found loud"));
  EXPECT_THAT(StartLogging({.level = "info", .format = "xml"}, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "log format: expected text or json, found xml"));
}

}  // namespace
}  // namespace tally
