// A write that the disk takes only in part.
#include <filesystem>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/writer.h"
#include "tests/server/ledger/file_size_limit.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::Append;
using testing::ExpectSame;
using testing::FileSizeLimit;
using testing::kLayoutDigest;
using testing::MakeRound;
using testing::TestFolder;

TEST(DiskFullTest, TheFileIsCutBackAndALaterAppendWorks) {
  const TestFolder folder;
  auto writer = LedgerWriter::Open(folder / "ledger", kLayoutDigest);
  TALLY_ASSERT_OK(writer);
  TALLY_ASSERT_OK(Append(**writer, MakeRound(1)));
  const std::string segment = folder / "ledger/0000000001.seg";
  const uint64_t good = std::filesystem::file_size(segment);
  for (const uint64_t room : {0, 1, 47, 100, 5000}) {
    const FileSizeLimit limit(good + room);
    EXPECT_FALSE(Append(**writer, MakeRound(2, 3, 4096)).ok());
    EXPECT_EQ((*writer)->last_round(), 1u);
    EXPECT_EQ(std::filesystem::file_size(segment), good);
  }
  TALLY_ASSERT_OK(Append(**writer, MakeRound(2, 3, 4096)));
  TALLY_ASSERT_OK((*writer)->Sync());
  TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, (*writer)->reader().Read(2));
  ExpectSame(found, MakeRound(2, 3, 4096));
}

TEST(DiskFullTest, ASegmentThatCannotBeStartedIsStartedLater) {
  const TestFolder folder;
  auto writer = LedgerWriter::Open(folder / "ledger", kLayoutDigest, {.segment_bytes = 1});
  TALLY_ASSERT_OK(writer);
  TALLY_ASSERT_OK(Append(**writer, MakeRound(1)));
  {
    const FileSizeLimit limit(10);
    EXPECT_FALSE(Append(**writer, MakeRound(2)).ok());
    EXPECT_EQ((*writer)->last_round(), 1u);
  }
  TALLY_ASSERT_OK(Append(**writer, MakeRound(2)));
  for (uint64_t round = 1; round <= 2; ++round) {
    TALLY_ASSERT_OK_AND_ASSIGN(const LedgerRound found, (*writer)->reader().Read(round));
    ExpectSame(found, MakeRound(round));
  }
}

}  // namespace
}  // namespace tally
