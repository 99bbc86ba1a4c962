#include "server/config/server_config.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<ServerConfig> Parse(const std::string& text) {
  return ParseServerConfig(text, "server.yaml");
}

TEST(ServerConfig, Defaults) {
  TALLY_ASSERT_OK_AND_ASSIGN(const ServerConfig config, Parse("state_dir: /var/lib/tally\n"));
  EXPECT_EQ(config.listen.ToString(), "127.0.0.1:7070");
  ASSERT_TRUE(config.status.has_value());
  EXPECT_EQ(config.status->ToString(), "127.0.0.1:7071");
  EXPECT_EQ(config.state_dir, "/var/lib/tally");
  EXPECT_FALSE(config.insecure);
  EXPECT_FALSE(config.tls.enabled());
  EXPECT_EQ(config.heartbeat, absl::Seconds(5));
  EXPECT_FALSE(config.strict_durability);
  EXPECT_EQ(config.keep.keep_rounds, std::nullopt);
  EXPECT_EQ(config.keep.segment_bytes, uint64_t{256} << 20);
  EXPECT_EQ(config.keep.keep_snapshots, 3u);
  EXPECT_EQ(config.log.level, "info");
  EXPECT_EQ(config.log.format, "text");
}

TEST(ServerConfig, EveryKey) {
  TALLY_ASSERT_OK_AND_ASSIGN(const ServerConfig config, Parse(R"(
listen: "[::1]:0"
status: off
state_dir: state
insecure: false
tls:
  certificate: server.pem
  key: server.key
  client_ca: workers.pem
heartbeat: 500ms
durability: strict
ledger: {keep_rounds: 1000, segment: 64KiB}
snapshots: {keep: all}
log: {level: debug, format: json}
)"));
  EXPECT_EQ(config.listen.ToString(), "[::1]:0");
  EXPECT_FALSE(config.status.has_value());
  EXPECT_EQ(config.tls.certificate, "server.pem");
  EXPECT_EQ(config.tls.key, "server.key");
  EXPECT_EQ(config.tls.ca, "workers.pem");
  EXPECT_EQ(config.heartbeat, absl::Milliseconds(500));
  EXPECT_TRUE(config.strict_durability);
  EXPECT_EQ(config.keep.keep_rounds, 1000u);
  EXPECT_EQ(config.keep.segment_bytes, uint64_t{64} << 10);
  EXPECT_EQ(config.keep.keep_snapshots, std::nullopt);
  EXPECT_EQ(config.log.level, "debug");
  EXPECT_EQ(config.log.format, "json");
}

TEST(ServerConfig, ResolvedReadsBackAsTheSame) {
  TALLY_ASSERT_OK_AND_ASSIGN(const ServerConfig first, Parse("state_dir: s\nheartbeat: 2s\n"));
  EXPECT_THAT(first.resolved, AllOf(HasSubstr("listen: \"127.0.0.1:7070\""),
                                    HasSubstr("durability: relaxed"), HasSubstr("heartbeat: 2s"),
                                    HasSubstr("keep_rounds: all"), HasSubstr("segment: 256MiB")));
  TALLY_ASSERT_OK_AND_ASSIGN(const ServerConfig second, Parse(first.resolved));
  EXPECT_EQ(second.resolved, first.resolved);
}

TEST(ServerConfig, AllProblemsAtOnceWithTheirLines) {
  EXPECT_THAT(Parse(R"(listen: nowhere
status: 127.0.0.1:99999
heartbeat: 5
durability: stric
log: {level: loud, colour: true}
max_jobs: 3
)"),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("server.yaml:1: listen: "), HasSubstr("found no port"),
                             HasSubstr("server.yaml:2: status: "), HasSubstr("99999"),
                             HasSubstr("server.yaml:3: heartbeat: "),
                             HasSubstr("server.yaml:4: durability: "), HasSubstr("strict"),
                             HasSubstr("log.level: "), HasSubstr("log.colour"),
                             HasSubstr("server.yaml:6: max_jobs"), HasSubstr("state_dir: "))));
}

TEST(ServerConfig, EmptyFile) {
  EXPECT_THAT(Parse("{}"), StatusIs(kInvalid, HasSubstr("state_dir: expected a string, found no "
                                                        "such key")));
}

TEST(ServerConfig, EmptyPaths) {
  EXPECT_THAT(Parse("state_dir: ''\ntls: {certificate: '', key: k}\n"),
              StatusIs(kInvalid, AllOf(HasSubstr("state_dir: expected a path"),
                                       HasSubstr("tls.certificate: expected a path"))));
}

TEST(ServerConfig, PlainTextStaysOnLoopback) {
  for (const char* address : {"0.0.0.0:7070", "'[::]:7070'", "192.168.1.5:7070", "server:7070"}) {
    EXPECT_THAT(Parse(absl::StrCat("state_dir: s\nlisten: ", address, "\n")),
                StatusIs(kInvalid, AllOf(HasSubstr("server.yaml:2: listen: expected a loopback"),
                                         HasSubstr("insecure: true"))))
        << address;
    TALLY_EXPECT_OK(
        Parse(absl::StrCat("state_dir: s\ninsecure: true\nlisten: ", address, "\n")));
    TALLY_EXPECT_OK(Parse(absl::StrCat("state_dir: s\ntls: {certificate: c, key: k}\nlisten: ",
                                       address, "\n")));
  }
  for (const char* address : {"localhost:1", "127.8.9.1:1", "'[::1]:1'"}) {
    TALLY_EXPECT_OK(Parse(absl::StrCat("state_dir: s\nlisten: ", address, "\n")));
  }
}

TEST(ServerConfig, StatusIsNeverTlsSoTlsDoesNotFreeIt) {
  const std::string tls = "state_dir: s\ntls: {certificate: c, key: k}\nlisten: 0.0.0.0:7070\n";
  EXPECT_THAT(Parse(tls + "status: 0.0.0.0:7071\n"),
              StatusIs(kInvalid, AllOf(HasSubstr("server.yaml:4: status: expected a loopback"),
                                       Not(HasSubstr(": listen:")))));
  TALLY_EXPECT_OK(Parse(tls + "status: 0.0.0.0:7071\ninsecure: true\n"));
}

TEST(ServerConfig, TlsIsWholeOrAbsent) {
  EXPECT_THAT(Parse("state_dir: s\ntls: {certificate: c}\n"),
              StatusIs(kInvalid, HasSubstr("server.yaml:2: tls.key: ")));
  EXPECT_THAT(Parse("state_dir: s\ntls: {client_ca: c}\n"),
              StatusIs(kInvalid, AllOf(HasSubstr("tls.key"), HasSubstr("tls.certificate"))));
  EXPECT_THAT(Parse("state_dir: s\ntls: on\n"), StatusIs(kInvalid, HasSubstr("tls")));
}

TEST(ServerConfig, OneAddressTwice) {
  EXPECT_THAT(Parse("state_dir: s\nstatus: 127.0.0.1:7070\n"),
              StatusIs(kInvalid, HasSubstr("status: expected another address than listen")));
  TALLY_EXPECT_OK(Parse("state_dir: s\nlisten: 127.0.0.1:0\nstatus: 127.0.0.1:0\n"));
}

TEST(ServerConfig, HeartbeatRange) {
  for (const char* bad : {"0", "-1s", "99ms", "11m", "inf"}) {
    EXPECT_THAT(Parse(absl::StrCat("state_dir: s\nheartbeat: ", bad, "\n")),
                StatusIs(kInvalid, HasSubstr("heartbeat: ")))
        << bad;
  }
}

TEST(ServerConfig, WhatIsKeptHasRanges) {
  for (const char* bad : {"ledger: {keep_rounds: 0}", "ledger: {keep_rounds: some}",
                          "ledger: {segment: 63KiB}", "ledger: {segment: 2TiB}",
                          "ledger: {segment: 1048576}", "snapshots: {keep: 0}",
                          "snapshots: {keep: 1.5}"}) {
    EXPECT_THAT(Parse(absl::StrCat("state_dir: s\n", bad, "\n")),
                StatusIs(kInvalid, HasSubstr("server.yaml:2: ")))
        << bad;
  }
}

TEST(ServerConfig, FilesAreReadOnDemandAndAllTheirProblemsShown) {
  const std::string text =
      "state_dir: s\nheartbeat: 5\ntls:\n  certificate: /none/c.pem\n  key: /none/k.pem\n"
      "  client_ca: /none/ca.pem\n";
  EXPECT_THAT(ParseServerConfig(text, "server.yaml", ServerFiles::kRead),
              StatusIs(kInvalid, AllOf(HasSubstr("server.yaml:2: heartbeat: "),
                                       HasSubstr("server.yaml:4: tls.certificate: "),
                                       HasSubstr("server.yaml:5: tls.key: "),
                                       HasSubstr("server.yaml:6: tls.client_ca: "))));
  EXPECT_THAT(Parse(text), StatusIs(kInvalid, Not(HasSubstr("tls"))));
}

TEST(ServerConfig, MissingFileIsNamed) {
  EXPECT_THAT(ReadServerConfig("/nonexistent/server.yaml"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/server.yaml")));
}

}  // namespace
}  // namespace tally
