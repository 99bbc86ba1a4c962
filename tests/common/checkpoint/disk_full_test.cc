// A disk that fills up gives a clear error and leaves nothing half-made.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>

#include "common/base/status.h"
#include "common/base/status_matchers.h"
#include "common/checkpoint/hf_directory.h"
#include "common/checkpoint/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

namespace tally {
namespace {

using testing::StatusIs;
using testing::TempFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMebibyte = 1 << 20;

std::vector<TensorInfo> OneTensor(uint64_t elements) {
  TensorInfo tensor;
  tensor.name = "a";
  tensor.shape = {elements};
  return {tensor};
}

absl::Status WriteStreamed(const std::string& path, uint64_t elements) {
  TALLY_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(path, OneTensor(elements)));
  TALLY_RETURN_IF_ERROR(writer->Append(std::string(elements * 4, 'x')));
  return writer->Finish();
}

absl::Status WriteDirectory(const std::string& path, uint64_t elements) {
  TALLY_ASSIGN_OR_RETURN(const auto writer,
                         HfDirectoryWriter::Create(path, OneTensor(elements), {}));
  TALLY_RETURN_IF_ERROR(writer->Append(std::string(elements * 4, 'x')));
  return writer->Finish();
}

// A file system of 1 MiB of its own; needs the right to mount.
class TinyDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "may not mount a file system here: " << strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (!mounted_) return;
    EXPECT_THAT(folder_.Names(), IsEmpty());
    EXPECT_EQ(::umount(folder_.path().c_str()), 0);
  }

  TempFolder folder_;
  bool mounted_ = false;
};

TEST_F(TinyDisk, StreamedFile) {
  EXPECT_THAT(WriteStreamed(folder_.File("m"), kMebibyte),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(folder_.File("m"))));
}

TEST_F(TinyDisk, FlatFileFailsBeforeAnythingIsWritten) {
  EXPECT_THAT(FlatSafetensorsWriter::Create(folder_.File("m"), OneTensor(kMebibyte)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("claiming disk space")));
}

TEST_F(TinyDisk, Directory) {
  EXPECT_THAT(WriteDirectory(folder_.File("model"), kMebibyte),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(folder_.File("model"))));
}

// The same where nothing may be mounted: the process's own limit on file sizes.
class FileSizeLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    old_action_ = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit_), 0);
    rlimit limit = old_limit_;
    limit.rlim_cur = kMebibyte;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  void TearDown() override {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit_), 0);
    ::signal(SIGXFSZ, old_action_);
    EXPECT_THAT(folder_.Names(), IsEmpty());
  }

  TempFolder folder_;
  rlimit old_limit_;
  sighandler_t old_action_;
};

TEST_F(FileSizeLimit, StreamedFile) {
  const absl::Status status = WriteStreamed(folder_.File("m"), kMebibyte);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
}

TEST_F(FileSizeLimit, FlatFile) {
  const absl::Status status =
      FlatSafetensorsWriter::Create(folder_.File("m"), OneTensor(kMebibyte)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
}

TEST_F(FileSizeLimit, Directory) {
  const absl::Status status = WriteDirectory(folder_.File("model"), kMebibyte);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
}

}  // namespace
}  // namespace tally
