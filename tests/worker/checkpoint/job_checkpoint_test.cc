// Each kind of corruption of a worker's checkpoint is found.
#include "worker/checkpoint/job_checkpoint.h"

#include <fstream>

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"
#include "tests/worker/checkpoint/test_checkpoint.h"

namespace tally {
namespace {

using ::tally::testing::ExpectSame;
using ::tally::testing::FullCheckpoint;
using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

class JobCheckpointTest : public ::testing::Test {
 protected:
  // The bytes of a whole checkpoint.
  std::string Written() {
    TALLY_EXPECT_OK(WriteJobCheckpoint(path_, FullCheckpoint()));
    return *ReadFile(path_);
  }
  absl::StatusOr<JobCheckpoint> ReadChanged(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;  // thousands: without a sync
    return ReadJobCheckpoint(path_);
  }
  // With `from`, which must be there, as `to` of the same length.
  absl::StatusOr<JobCheckpoint> ReadReplaced(const std::string& from, const std::string& to) {
    std::string bytes = Written();
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    return ReadChanged(bytes.replace(at, from.size(), to));
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("checkpoint.safetensors");
};

TEST_F(JobCheckpointTest, ComesBackAsItWas) {
  TALLY_ASSERT_OK(WriteJobCheckpoint(path_, FullCheckpoint()));
  TALLY_ASSERT_OK_AND_ASSIGN(const JobCheckpoint read, ReadJobCheckpoint(path_));
  ExpectSame(read, FullCheckpoint());
  EXPECT_EQ(folder_.Names().size(), 1u);
}

TEST_F(JobCheckpointTest, ComesBackWithoutStateAndContribution) {
  JobCheckpoint small;
  small.parameters = {2.0f};
  TALLY_ASSERT_OK(WriteJobCheckpoint(path_, small));
  TALLY_ASSERT_OK_AND_ASSIGN(const JobCheckpoint read, ReadJobCheckpoint(path_));
  ExpectSame(read, small);
}

TEST_F(JobCheckpointTest, NoneIsNotFound) {
  EXPECT_THAT(ReadJobCheckpoint(path_), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
}

TEST_F(JobCheckpointTest, CutShortAnywhereIsDamaged) {
  const std::string whole = Written();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ReadChanged(whole.substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)))
        << size;
  }
}

TEST_F(JobCheckpointTest, TrailingBytesAreDamage) {
  EXPECT_THAT(ReadChanged(Written() + "x"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
}

// In values, names, numbers, the digest itself and what is between them.
TEST_F(JobCheckpointTest, AnyFlippedBitIsFoundOrMeansNothing) {
  const std::string whole = Written();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    const absl::StatusOr<JobCheckpoint> read = ReadChanged(changed);
    if (read.ok()) {  // white space of the header
      ExpectSame(*read, FullCheckpoint());
    } else {
      EXPECT_THAT(read, StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_))) << at;
    }
  }
}

TEST_F(JobCheckpointTest, AnotherRoundIsFoundByTheDigest) {
  EXPECT_THAT(ReadReplaced("\"round\":\"41\"", "\"round\":\"42\""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("digest: expected")));
}

TEST_F(JobCheckpointTest, AnotherNameIsFoundByTheDigest) {
  EXPECT_THAT(ReadReplaced("method.momentum", "method.momentun"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("digest: expected")));
}

TEST_F(JobCheckpointTest, AnotherVersionIsNotRead) {
  EXPECT_THAT(ReadReplaced("\"version\":\"1\"", "\"version\":\"2\""),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("version: expected 1, found 2")));
}

TEST_F(JobCheckpointTest, AnotherFormatIsNotRead) {
  EXPECT_THAT(ReadReplaced("tally-worker-checkpoint", "tally-worker-checkpoinT"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("format: expected")));
}

TEST_F(JobCheckpointTest, NoSafetensorsAtAllIsDamaged) {
  EXPECT_THAT(ReadChanged("not a checkpoint"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
  EXPECT_THAT(ReadChanged(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)));
}

TEST_F(JobCheckpointTest, AWriteThatFailsLeavesTheOneOfBefore) {
  TALLY_ASSERT_OK(WriteJobCheckpoint(path_, FullCheckpoint()));
  JobCheckpoint impossible = FullCheckpoint();
  impossible.method_state.emplace(std::string("\0", 1), std::vector<float>{1});
  EXPECT_FALSE(WriteJobCheckpoint(path_, impossible).ok());
  TALLY_ASSERT_OK_AND_ASSIGN(const JobCheckpoint read, ReadJobCheckpoint(path_));
  ExpectSame(read, FullCheckpoint());
  EXPECT_EQ(folder_.Names().size(), 1u);
}

}  // namespace
}  // namespace tally
