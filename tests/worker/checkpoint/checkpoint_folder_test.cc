#include "worker/checkpoint/checkpoint_folder.h"

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  CheckpointFolder Of(const std::string& job) {
    return *CheckpointFolder::Of(state_.path(), job);
  }
  bool Exists(const std::string& name) { return ReadFile(state_.File(name)).ok(); }

  testing::TempFolder state_;
  const CheckpointKey key_ = FullCheckpoint().key;
};

TEST_F(CheckpointFolderTest, WritesAndLoads) {
  const CheckpointFolder folder = Of("job-1");
  EXPECT_FALSE(folder.Load(key_).has_value());
  EXPECT_THAT(state_.Names(), IsEmpty());
  TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
  EXPECT_TRUE(Exists("jobs/job-1/checkpoint.safetensors"));
  ASSERT_TRUE(folder.Load(key_).has_value());
  ExpectSame(*folder.Load(key_), FullCheckpoint());
}

TEST_F(CheckpointFolderTest, AnotherJobKeyLayoutOrPlaceIsRemoved) {
  CheckpointKey job = key_, layout = key_, worker = key_;
  ++job.job_key;
  ++layout.layout;
  ++worker.worker;
  for (const CheckpointKey& other : {job, layout, worker}) {
    const CheckpointFolder folder = Of("job-1");
    TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
    EXPECT_FALSE(folder.Load(other).has_value());
    EXPECT_FALSE(Exists("jobs/job-1/checkpoint.safetensors"));
  }
}

TEST_F(CheckpointFolderTest, ADamagedOneIsLeftOutAndOverwritten) {
  const CheckpointFolder folder = Of("job-1");
  TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
  TALLY_ASSERT_OK(WriteFileAtomically(folder.file(), "damaged"));
  EXPECT_FALSE(folder.Load(key_).has_value());
  TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
  EXPECT_TRUE(folder.Load(key_).has_value());
}

TEST_F(CheckpointFolderTest, WhatAKilledWriteLeftGoesWithTheNext) {
  const CheckpointFolder folder = Of("job-1");
  TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
  const std::string leftover = "jobs/job-1/checkpoint.safetensors.tmp.123.0";
  TALLY_ASSERT_OK(WriteFileAtomically(state_.File(leftover), "half of one"));
  EXPECT_TRUE(folder.Load(key_).has_value());
  TALLY_ASSERT_OK(folder.Write(FullCheckpoint()));
  EXPECT_FALSE(Exists(leftover));
  EXPECT_TRUE(folder.Load(key_).has_value());
}

TEST_F(CheckpointFolderTest, OtherJobsFoldersGoAndNothingElse) {
  TALLY_ASSERT_OK(Of("job-1").Write(FullCheckpoint()));
  TALLY_ASSERT_OK(Of("job-2").Write(FullCheckpoint()));
  TALLY_ASSERT_OK(Of("job-10").Write(FullCheckpoint()));
  TALLY_ASSERT_OK(WriteFileAtomically(state_.File("worker.lock"), ""));
  Of("job-1").RemoveOthers();
  EXPECT_TRUE(Of("job-1").Load(key_).has_value());
  EXPECT_FALSE(Of("job-2").Load(key_).has_value());
  EXPECT_FALSE(Of("job-10").Load(key_).has_value());
  EXPECT_THAT(state_.Names(), ElementsAre("jobs", "worker.lock"));
  Of("job-1").Remove();
  EXPECT_FALSE(Of("job-1").Load(key_).has_value());
  Of("job-1").Remove();  // absent is fine
}

TEST_F(CheckpointFolderTest, AJobIdIsNoPath) {
  for (const char* id : {"", ".", "..", "../job-1", "/etc", "a/b"}) {
    EXPECT_THAT(CheckpointFolder::Of(state_.path(), id),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job id: expected")))
        << id;
  }
}

}  // namespace
}  // namespace tally
