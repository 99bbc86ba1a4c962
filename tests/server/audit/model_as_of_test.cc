#include "server/audit/model_as_of.h"

#include <filesystem>

#include "common/base/digest.h"
#include "common/checkpoint/hf_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/audit/test_job.h"
#include "tests/server/ledger/file_size_limit.h"

namespace tally {
namespace {

using testing::StatusIs;
using testing::TestFolder;
using testing::TestJob;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bool Always() { return true; }

class ModelAsOfTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ExportedModel>> Make(uint64_t step) {
    return exports_.Make("job-7", job_.path(), step, Always);
  }
  bool NothingLeft() const {
    return !std::filesystem::exists(state_ / "exports") ||
           std::filesystem::is_empty(state_ / "exports");
  }
  // The digest of the model in a directory.
  std::string DigestOf(const ExportedModel& model) {
    const auto checkpoint = CheckpointReader::Open(model.folder());
    EXPECT_THAT(checkpoint, testing::IsOk());
    std::vector<float> parameters(job_.layout().size());
    for (const LayoutTensor& tensor : job_.layout().tensors()) {
      const TensorInfo* info = (*checkpoint)->Find(tensor.name);
      EXPECT_NE(info, nullptr) << tensor.name;
      EXPECT_THAT((*checkpoint)->ReadAsFloat(
                      *info, absl::MakeSpan(parameters).subspan(tensor.first, tensor.count)),
                  testing::IsOk());
    }
    EXPECT_EQ((*checkpoint)->config_json(), "{\"a\": 1}");
    return DigestToString(ParametersDigest(job_.layout(), parameters));
  }

  TestJob job_;
  TestFolder state_;
  ModelExports exports_{state_.path()};
};

TEST_F(ModelAsOfTest, EveryTrainingRound) {
  for (uint64_t step = 1; step <= TestJob::StepOf(42); ++step) {
    uint64_t round = 42;
    while (TestJob::StepOf(round) != step) --round;  // the last one with it: after the buffers
    const auto model = Make(step);
    TALLY_ASSERT_OK(model);
    EXPECT_EQ(DigestOf(**model), DigestToString(job_.digests()[round])) << step;
  }
  EXPECT_TRUE(NothingLeft());
}

TEST_F(ModelAsOfTest, TheBase) {
  const auto model = Make(0);
  TALLY_ASSERT_OK(model);
  EXPECT_EQ(DigestOf(**model), DigestToString(ParametersDigest(
                                   job_.layout(), testing::RandomFloats(job_.layout().size(), 1))));
}

TEST_F(ModelAsOfTest, SaysWhatItIsAsASnapshotDoes) {
  for (const uint64_t step : {TestJob::StepOf(20), TestJob::StepOf(23)}) {  // a snapshot; a fold
    const auto model = Make(step);
    TALLY_ASSERT_OK(model);
    const auto file = SafetensorsFile::Open((*model)->folder() + "/model.safetensors");
    TALLY_ASSERT_OK(file);
    const SafetensorsMetadata& said = (*file)->metadata();
    EXPECT_EQ(said.at("tally.layout_digest"), DigestToString(job_.layout().digest()));
    EXPECT_EQ(said.at("tally.parameters_digest"), DigestOf(**model));
    EXPECT_EQ(said.count("tally.round"), 1u);
    EXPECT_EQ(said.count("tally.state_slots"), 1u);
    EXPECT_EQ(said.at("format"), "pt");
  }
}

TEST_F(ModelAsOfTest, ALinkedSnapshotOutlivesRetention) {
  auto model = Make(TestJob::StepOf(20));
  TALLY_ASSERT_OK(model);
  const std::string digest = DigestOf(**model);
  std::filesystem::remove_all(job_ / "snapshots/0000000020");
  EXPECT_EQ(DigestOf(**model), digest);
  model->reset();
  EXPECT_TRUE(NothingLeft());
}

TEST_F(ModelAsOfTest, ADamagedSnapshotIsFoldedAgain) {
  job_.Flip("snapshots/0000000020/model.safetensors", -4);
  const auto model = Make(TestJob::StepOf(20));
  TALLY_ASSERT_OK(model);
  EXPECT_EQ(DigestOf(**model), DigestToString(job_.digests()[20]));
}

TEST_F(ModelAsOfTest, RoundsToCome) {
  EXPECT_THAT(Make(33), StatusIs(absl::StatusCode::kOutOfRange,
                                 "job-7: round 33 is not done: there are rounds 0 to 32"));
  EXPECT_TRUE(NothingLeft());
}

TEST_F(ModelAsOfTest, RoundsThatAreGone) {
  TALLY_ASSERT_OK(job_.writer().DropBefore(20));
  for (const char* snapshot : {"snapshots/0000000000", "snapshots/0000000010"}) {
    std::filesystem::remove_all(job_ / snapshot);
  }
  EXPECT_THAT(Make(14), StatusIs(absl::StatusCode::kNotFound,
                                 "job-7: round 14 is not kept: there are rounds 15 to 32"));
  const auto model = Make(15);
  TALLY_ASSERT_OK(model);
  EXPECT_EQ(DigestOf(**model), DigestToString(job_.digests()[20]));
}

TEST_F(ModelAsOfTest, ADamagedLedger) {
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(job_ / "ledger")) {
    last = std::max(last, entry.path().filename().string());
  }
  job_.Flip("ledger/" + last, -20);
  EXPECT_THAT(Make(32), StatusIs(absl::StatusCode::kDataLoss,
                                 AllOf(HasSubstr("tally verify job-7"), Not(HasSubstr("/")))));
  EXPECT_TRUE(NothingLeft());
}

TEST_F(ModelAsOfTest, AModelThatCannotBeWrittenLeavesNothing) {
  const auto make_with_limit = [&](uint64_t bytes) {
    const testing::FileSizeLimit limit(bytes);
    const auto model = Make(TestJob::StepOf(25));
    EXPECT_TRUE(NothingLeft());
    return model.status();
  };
  EXPECT_THAT(make_with_limit(100),  // of the fold's files
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("no room"), Not(HasSubstr("/")))));
  EXPECT_THAT(make_with_limit(2200),  // of the model's
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("could not be made"), Not(HasSubstr("/")))));
  TALLY_EXPECT_OK(Make(TestJob::StepOf(25)));
}

TEST_F(ModelAsOfTest, StopsWhenToldTo) {
  EXPECT_THAT(exports_.Make("job-7", job_.path(), TestJob::StepOf(25), [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  EXPECT_TRUE(NothingLeft());
}

TEST_F(ModelAsOfTest, TheJobsFolderIsGone) {
  EXPECT_THAT(exports_.Make("job-7", job_ / "gone", 1, Always),
              StatusIs(absl::StatusCode::kNotFound, "job-7: its model is gone from the server"));
}

TEST_F(ModelAsOfTest, WhatAnEarlierServerLeftIsRemoved) {
  TALLY_ASSERT_OK(MakeFolders(state_ / "exports/job-1.abc/0000000001"));
  const ModelExports again(state_.path());
  EXPECT_FALSE(std::filesystem::exists(state_ / "exports"));
}

}  // namespace
}  // namespace tally
