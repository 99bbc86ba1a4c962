#include "server/staging/contribution_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::IsOk;
using testing::Overwrite;
using testing::StatusIs;
using testing::TestFolder;
using ::testing::HasSubstr;

constexpr ContributionKey kKey{.round = 7, .worker = 3, .spec_digest = 99, .chunks = 3};

Bytes PayloadOf(uint32_t index) {
  Bytes bytes(100 + index * 10);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * (index + 3));
  return bytes;
}

uint64_t DigestOf(const Bytes& bytes) { return Digest64(bytes.data(), bytes.size()); }

v1::ContributionEnd TheEnd() {
  v1::ContributionEnd end;
  end.set_round(kKey.round);
  end.set_samples(640);
  return end;
}

class ContributionFileTest : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path() + "/contributions"; }
  std::string path() const { return folder() + "/0000000007.003"; }
  std::unique_ptr<ContributionFile> Open(const ContributionKey& key = kKey) {
    auto opened = ContributionFile::Open(folder(), key);
    TALLY_EXPECT_OK(opened.status());
    return *std::move(opened);
  }
  static absl::Status Append(ContributionFile& file, uint32_t index) {
    const Bytes payload = PayloadOf(index);
    return file.Append(index, DigestOf(payload), payload);
  }
  static void AppendAll(ContributionFile& file) {
    for (const uint32_t index : {2, 0, 1}) TALLY_ASSERT_OK(Append(file, index));
  }
  // Every chunk that it says it holds is what was sent.
  static void ExpectRight(const ContributionFile& file) {
    uint32_t held = 0;
    for (uint32_t index = 0; index < kKey.chunks; ++index) {
      if (!file.digest(index).has_value()) continue;
      ++held;
      TALLY_ASSERT_OK_AND_ASSIGN(const Bytes payload, file.Read(index));
      EXPECT_EQ(payload, PayloadOf(index));
    }
    EXPECT_EQ(file.held(), held);
  }

  TestFolder folder_;
};

TEST_F(ContributionFileTest, WhatIsAppendedIsReadInAnyOrder) {
  const auto file = Open();
  AppendAll(*file);
  ExpectRight(*file);
  EXPECT_EQ(file->held(), 3u);
  EXPECT_EQ(file->bytes(), 330u);
  TALLY_ASSERT_OK(file->End(TheEnd()));
  EXPECT_EQ(file->end()->samples(), 640u);
}

TEST_F(ContributionFileTest, IsTakenUpWhereItWas) {
  uint64_t digest = 0;
  {
    const auto file = Open();
    TALLY_ASSERT_OK(Append(*file, 1));
    digest = file->DigestOfHeld();
  }
  const auto file = Open();
  EXPECT_EQ(file->held(), 1u);
  EXPECT_EQ(file->DigestOfHeld(), digest);
  EXPECT_FALSE(file->end().has_value());
  TALLY_ASSERT_OK(Append(*file, 0));
  TALLY_ASSERT_OK(Append(*file, 2));
  TALLY_ASSERT_OK(file->End(TheEnd()));
  ExpectRight(*Open());
  EXPECT_EQ(Open()->end()->samples(), 640u);
}

// The digest of what is held tells the sender whether it is its own, and does not depend on the order.
TEST_F(ContributionFileTest, DigestOfHeldIsOverTheIndexOrder) {
  const auto file = Open();
  AppendAll(*file);
  Digester digester;
  for (const uint32_t index : {0, 1, 2}) digester.AddUint64(DigestOf(PayloadOf(index)));
  EXPECT_EQ(file->DigestOfHeld(), digester.Finish());
}

TEST_F(ContributionFileTest, ARepetitionCountsOnceAndAnotherPayloadIsRefused) {
  const auto file = Open();
  TALLY_ASSERT_OK(Append(*file, 1));
  const auto size = std::filesystem::file_size(path());
  TALLY_ASSERT_OK(Append(*file, 1));
  EXPECT_EQ(std::filesystem::file_size(path()), size);
  const Bytes other = PayloadOf(2);
  EXPECT_THAT(file->Append(1, DigestOf(other), other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 1: sent before")));
  EXPECT_THAT(file->Append(3, DigestOf(other), other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index below 3")));
  ExpectRight(*file);
}

TEST_F(ContributionFileTest, NoEndBeforeTheLastChunk) {
  const auto file = Open();
  TALLY_ASSERT_OK(Append(*file, 1));
  EXPECT_THAT(file->End(TheEnd()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("expected 3 chunks, found 1")));
  EXPECT_FALSE(Open()->end().has_value());
}

TEST_F(ContributionFileTest, AnotherRoundsOrSpecsIsBegunAnew) {
  AppendAll(*Open());
  ContributionKey other = kKey;
  other.spec_digest = 100;
  EXPECT_EQ(Open(other)->held(), 0u);
  EXPECT_EQ(Open()->held(), 0u);  // the file is the other one's now
}

// A crash may cut the file anywhere: what is whole stays, and it goes on.
TEST_F(ContributionFileTest, IsCutAtEveryLength) {
  {
    const auto file = Open();
    AppendAll(*file);
    TALLY_ASSERT_OK(file->End(TheEnd()));
  }
  const std::string whole = *ReadFile(path());
  for (size_t length = 0; length < whole.size(); ++length) {
    Overwrite(path(), whole.substr(0, length));
    const auto file = Open();
    EXPECT_FALSE(file->end().has_value()) << length;
    ExpectRight(*file);
    AppendAll(*file);
    TALLY_ASSERT_OK(file->End(TheEnd()));
    const auto again = Open();
    EXPECT_TRUE(again->end().has_value()) << length;
    EXPECT_EQ(again->held(), 3u) << length;
    ExpectRight(*again);
  }
}

// A byte that the disk has changed before the end was written: never taken for the worker's.
TEST_F(ContributionFileTest, AChangedByteIsNeverTakenUp) {
  AppendAll(*Open());
  const std::string whole = *ReadFile(path());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    Overwrite(path(), changed);
    const auto file = Open();
    EXPECT_LT(file->held(), 3u) << at;
    ExpectRight(*file);
  }
}

// After the end the bytes are checked as they are read.
TEST_F(ContributionFileTest, ALostByteOfACompleteOneIsNamed) {
  {
    const auto file = Open();
    AppendAll(*file);
    TALLY_ASSERT_OK(file->End(TheEnd()));
  }
  std::string bytes = *ReadFile(path());
  bytes[kContributionHeaderBytes + kContributionHeadBytes + 5] ^= 1;  // chunk 2 came first
  Overwrite(path(), bytes);
  const auto file = Open();
  ASSERT_TRUE(file->end().has_value());
  EXPECT_THAT(file->Read(2), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 2: digest")));
  EXPECT_THAT(file->Read(0), IsOk());
}

TEST_F(ContributionFileTest, NothingIsAppendedAfterTheEnd) {
  ContributionKey empty = kKey;
  empty.chunks = 0;
  const auto file = Open(empty);
  TALLY_ASSERT_OK(file->End(TheEnd()));
  TALLY_ASSERT_OK(file->End(TheEnd()));
  EXPECT_THAT(file->Read(0), StatusIs(absl::StatusCode::kNotFound, HasSubstr("chunk 0")));
}

TEST_F(ContributionFileTest, OldRoundsGo) {
  ContributionKey later = kKey;
  later.round = 8;
  AppendAll(*Open());
  AppendAll(*Open(later));
  TALLY_ASSERT_OK(RemoveContributionsBefore(folder(), 8));
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(Open(later)->held(), 3u);
  TALLY_ASSERT_OK(Open(later)->Remove());
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  TALLY_ASSERT_OK(RemoveContributionsBefore(folder() + "/absent", 8));
}

}  // namespace
}  // namespace tally
