#include "worker/daemon/check_machine.h"

#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/idx_files.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckMachineTest : public ::testing::Test {
 protected:
  CheckMachineTest() {
    data_.WriteSplit("train", 6);
    config_.device = "cpu";
    config_.data["images"] = {"idx", data_.path(), true};
  }
  testing::Folder data_;
  WorkerConfig config_;
};

TEST_F(CheckMachineTest, WhatCanRunPasses) { TALLY_EXPECT_OK(CheckMachine(config_)); }

TEST_F(CheckMachineTest, EveryProblemAtOnceWithKeyAndFile) {
  data_.Write("ca.pem", "no certificate");
  config_.device = "cuda:1";
  config_.data["absent"] = {"idx", "/no/such/folder", true};
  config_.data["foreign"] = {"safetensors", data_.path(), true};
  config_.tls.ca = data_.path() + "/ca.pem";
  EXPECT_THAT(
      CheckMachine(config_),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("device: cuda:1: this build of the worker has no CUDA\n"),
                     HasSubstr("data.absent: /no/such/folder: expected the file "
                               "train-images-idx3-ubyte"),
                     HasSubstr("data.foreign: " + data_.path() +
                               ": expected files train-*.safetensors, found none\n"),
                     HasSubstr("tls: " + config_.tls.ca))));
}

TEST_F(CheckMachineTest, AFileThatIsCutShortIsNamed) {
  const std::string labels = *ReadFile(data_.path() + "/train-labels-idx1-ubyte");
  data_.Write("train-labels-idx1-ubyte", labels.substr(0, labels.size() - 1));
  EXPECT_THAT(CheckMachine(config_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.images: " + data_.path() + "/train-labels-idx1-ubyte")));
}

}  // namespace
}  // namespace tally
