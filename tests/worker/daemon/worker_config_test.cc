#include "worker/daemon/worker_config.h"

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WorkerConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<WorkerConfig> Read(const std::string& text) {
    const std::string path = folder_.path() + "/worker.yaml";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return ReadWorkerConfig(path);
  }
  testing::TempFolder folder_;
};

constexpr char kMinimal[] =
    "server: \"127.0.0.1:7070\"\n"
    "state_dir: /tmp/w\n"
    "data:\n"
    "  images: {format: idx, path: /data}\n";

TEST_F(WorkerConfigTest, MinimalOneHasDefaults) {
  TALLY_ASSERT_OK_AND_ASSIGN(const WorkerConfig config, Read(kMinimal));
  EXPECT_FALSE(config.name.empty());
  EXPECT_EQ(config.device, "auto");
  EXPECT_EQ(config.threads, 0);
  EXPECT_TRUE(config.data.at("images").shared);
  EXPECT_EQ(config.checkpoint_every, absl::Seconds(60));
  EXPECT_EQ(config.reconnect_limit, absl::InfiniteDuration());
  EXPECT_EQ(config.stop_grace, absl::Seconds(8));
  EXPECT_THAT(config.resolved, HasSubstr("device: auto"));
}

TEST_F(WorkerConfigTest, AllProblemsAtOnceWithTheirLines) {
  EXPECT_THAT(
      Read("server: \"127.0.0.1:0\"\n"
           "state_dir: /tmp/w\n"
           "device: gpu\n"
           "threads: -1\n"
           "lables: {}\n"
           "data:\n"
           "  images: {format: csv, path: /data}\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("worker.yaml:1: server: expected a port above 0"),
                     HasSubstr("worker.yaml:3: device: expected auto, cpu or cuda:N, found gpu"),
                     HasSubstr("worker.yaml:4: threads: expected an integer from 0 to 1024"),
                     HasSubstr("worker.yaml:5: lables"), HasSubstr("did you mean labels"),
                     HasSubstr("worker.yaml:7: data.images.format: expected one of"))));
}

TEST_F(WorkerConfigTest, NamesAreThoseThatServerAndJobFilesTake) {
  EXPECT_THAT(Read("server: \"127.0.0.1:7070\"\n"
                   "state_dir: /tmp/w\n"
                   "name: gpu box\n"
                   "data:\n"
                   "  a/b: {format: idx, path: /data}\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker.yaml:3: name: expected 1 to 64 characters"),
                             HasSubstr("found \"gpu box\""), HasSubstr("found \"a/b\""))));
  EXPECT_THAT(Read(std::string(kMinimal) + "name: " + std::string(65, 'n') + "\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name: expected 1 to 64")));
}

TEST_F(WorkerConfigTest, NeedsADataSetAServerAndAStateDirectory) {
  EXPECT_THAT(Read("name: a\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("server"), HasSubstr("state_dir"),
                             HasSubstr("data: expected at least one data set"))));
}

TEST_F(WorkerConfigTest, DurationsOrTheirWords) {
  TALLY_ASSERT_OK_AND_ASSIGN(
      const WorkerConfig config,
      Read(std::string(kMinimal) + "checkpoint_every: off\nreconnect_limit: 10m\n"));
  EXPECT_EQ(config.checkpoint_every, absl::InfiniteDuration());
  EXPECT_EQ(config.reconnect_limit, absl::Minutes(10));
  EXPECT_THAT(config.resolved, HasSubstr("checkpoint_every: off"));
  EXPECT_THAT(Read(std::string(kMinimal) + "checkpoint_every: 0s\nreconnect_limit: ever\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("worker.yaml:5: checkpoint_every: expected off or a"),
                             HasSubstr("from 1s to 24h, found 0s"),
                             HasSubstr("worker.yaml:6: reconnect_limit: expected never or a"),
                             HasSubstr("found ever"))));
  EXPECT_THAT(
      Read(std::string(kMinimal) + "checkpoint_every: 60\nreconnect_limit: inf\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("checkpoint_every: expected"), HasSubstr("found inf"))));
}

TEST_F(WorkerConfigTest, CertificateAndKeyGoTogether) {
  EXPECT_THAT(Read(std::string(kMinimal) + "tls: {ca: /ca.pem, key: /k.pem}\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tls.certificate: expected certificate and key together")));
}

}  // namespace
}  // namespace tally
