#include "server/ledger/digest_log.h"

#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ledger/format.h"
#include "tests/server/ledger/test_rounds.h"

namespace tally {
namespace {

using testing::Overwrite;
using testing::StatusIs;
using testing::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Layout TwoBlocks() {
  LayoutBuilder builder;
  builder.AddBlock("body").AddTensor("b", {5});
  builder.AddBlock("head").AddTensor("h", {3});
  return *builder.Build();
}

const size_t kRecord = DigestRecordBytes(2);
constexpr size_t kFirst = kDigestLogHeaderBytes;

class DigestLogTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / kDigestLogFile; }
  std::unique_ptr<DigestLog> OpenLog(uint64_t last_round = 1000) {
    return DigestLog::Open(folder_.path(), layout_, last_round);
  }
  DigestLogReader Read() {
    auto reader = DigestLogReader::Open(folder_.path(), layout_);
    EXPECT_THAT(reader, testing::IsOk());
    return *std::move(reader);
  }
  std::string Bytes() { return *ReadFile(path()); }
  // Rounds 10, 20 and 30 of worker a.
  void WriteThree() {
    const auto log = OpenLog();
    for (const uint64_t round : {10, 20, 30}) log->Append(round, "a", round * 7, {round, round + 1});
  }

  TestFolder folder_;
  const Layout layout_ = TwoBlocks();
};

TEST_F(DigestLogTest, WhatIsAppendedIsRead) {
  const auto log = OpenLog();
  log->Append(10, "a", 1, {2, 3});
  log->Append(20, std::string(64, 'w'), 4, {5, 6});
  log->Append(10, "b", 7, {});
  const DigestLogReader reader = Read();
  EXPECT_THAT(reader.Rounds(), ElementsAre(10, 20));
  const auto tenth = reader.Of(10);
  ASSERT_EQ(tenth.size(), 2u);
  EXPECT_EQ(tenth[0].worker, "a");
  EXPECT_EQ(tenth[0].parameters, 1u);
  EXPECT_THAT(tenth[0].blocks, ElementsAre(2, 3));
  EXPECT_EQ(tenth[1].worker, "b");
  EXPECT_THAT(tenth[1].blocks, IsEmpty());
  ASSERT_EQ(reader.Of(20).size(), 1u);
  EXPECT_EQ(reader.Of(20)[0].worker, std::string(64, 'w'));
  EXPECT_THAT(reader.Of(15), IsEmpty());
  EXPECT_THAT(reader.damaged(), IsEmpty());
}

TEST_F(DigestLogTest, BytesAreAsDocumented) {
  LayoutBuilder builder;
  builder.AddBlock("head").AddTensor("w", {3});
  const Layout layout = *builder.Build();
  const std::string header = EncodeDigestLogHeader(layout);
  ASSERT_EQ(header.size(), kDigestLogHeaderBytes);
  EXPECT_EQ(absl::BytesToHexString(header.substr(0, 24)),
            "54414c4c59444c310100000001000000da779f4d83dbac54");
  EXPECT_EQ(GetUint64(header.data() + 24), Digest64(header.substr(0, 24)));
  const std::string record =
      EncodeDigestRecord({35, "a", 0x1122334455667788, {0x0102030405060708}}, 1);
  ASSERT_EQ(record.size(), 104u);
  EXPECT_EQ(absl::BytesToHexString(record.substr(0, 26)),
            "4447523101000000230000000000000088776655443322116100");
  EXPECT_EQ(record.substr(25, 63), std::string(63, '\0'));
  EXPECT_EQ(absl::BytesToHexString(record.substr(88, 8)), "0807060504030201");
  EXPECT_EQ(GetUint64(record.data() + 96), Digest64(record.substr(0, 96)));
}

TEST_F(DigestLogTest, GoesOnAfterARestart) {
  WriteThree();
  OpenLog()->Append(40, "a", 9, {1, 2});
  EXPECT_THAT(Read().Rounds(), ElementsAre(10, 20, 30, 40));
}

TEST_F(DigestLogTest, TornTailIsCutAtEveryLength) {
  WriteThree();
  const std::string whole = Bytes();
  for (size_t size = kFirst; size < whole.size(); ++size) {
    Overwrite(path(), whole.substr(0, size));
    const size_t records = (size - kFirst) / kRecord;
    EXPECT_EQ(Read().Rounds().size(), records);
    EXPECT_THAT(Read().damaged(), IsEmpty());
    OpenLog()->Append(99, "b", 1, {2, 3});
    EXPECT_EQ(Read().Rounds().size(), records + 1) << size;
    EXPECT_EQ(Bytes().size(), kFirst + (records + 1) * kRecord);
  }
}

// A machine that went down: the file's size was written, its last pages were not.
TEST_F(DigestLogTest, UnwrittenTailIsCut) {
  WriteThree();
  std::string bytes = Bytes();
  bytes.resize(bytes.size() - 100);
  bytes.resize(bytes.size() + 100 + kRecord, '\0');
  Overwrite(path(), bytes);
  EXPECT_THAT(Read().Rounds(), ElementsAre(10, 20));
  EXPECT_THAT(Read().damaged(), IsEmpty());
  OpenLog();
  EXPECT_EQ(Bytes().size(), kFirst + 2 * kRecord);
}

TEST_F(DigestLogTest, CorruptRecordIsNamedAndHidesNoOther) {
  WriteThree();
  const std::string whole = Bytes();
  for (size_t at = kFirst + kRecord; at < kFirst + 2 * kRecord; ++at) {
    std::string bytes = whole;
    bytes[at] ^= 4;
    Overwrite(path(), bytes);
    const DigestLogReader reader = Read();
    EXPECT_THAT(reader.Rounds(), ElementsAre(10, 30)) << at;
    ASSERT_EQ(reader.damaged().size(), 1u) << at;
    EXPECT_EQ(reader.damaged()[0].offset, kFirst + kRecord);
  }
}

TEST_F(DigestLogTest, CorruptLastRecordIsNamedAndStays) {
  WriteThree();
  std::string bytes = Bytes();
  bytes[bytes.size() - 20] ^= 1;
  Overwrite(path(), bytes);
  ASSERT_EQ(Read().damaged().size(), 1u);
  EXPECT_EQ(Read().damaged()[0].round, 30u);
  OpenLog()->Append(40, "a", 9, {1, 2});
  EXPECT_THAT(Read().Rounds(), ElementsAre(10, 20, 40));
  EXPECT_EQ(Read().damaged().size(), 1u);
}

TEST_F(DigestLogTest, CorruptHeaderIsRefusedAndPutAside) {
  WriteThree();
  const std::string whole = Bytes();
  for (size_t at = 0; at < kFirst; ++at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    Overwrite(path(), bytes);
    EXPECT_THAT(DigestLogReader::Open(folder_.path(), layout_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("digests.log: ")));
    OpenLog()->Append(40, "a", 9, {1, 2});
    EXPECT_THAT(Read().Rounds(), ElementsAre(40));
    EXPECT_EQ(*ReadFile(path() + ".damaged"), bytes);
  }
}

TEST_F(DigestLogTest, HeaderCutShort) {
  WriteThree();
  const std::string whole = Bytes();
  for (size_t size = 0; size < kFirst; ++size) {
    Overwrite(path(), whole.substr(0, size));
    EXPECT_THAT(DigestLogReader::Open(folder_.path(), layout_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no header")));
  }
}

TEST_F(DigestLogTest, AnotherLayout) {
  WriteThree();
  LayoutBuilder builder;
  builder.AddBlock("body").AddTensor("b", {5});
  builder.AddBlock("head").AddTensor("h", {4});
  EXPECT_THAT(DigestLogReader::Open(folder_.path(), *builder.Build()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expected version 1")));
}

TEST_F(DigestLogTest, NoLog) {
  EXPECT_THAT(DigestLogReader::Open(folder_.path(), layout_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("digests.log")));
}

// The disk lost rounds 16 to 30, which were done again: what was reported of them is of others.
TEST_F(DigestLogTest, ReportsOfLostRoundsDoNotCount) {
  WriteThree();
  {
    const auto log = OpenLog(/*last_round=*/15);
    log->Append(20, "b", 1, {2, 3});
  }
  EXPECT_THAT(Read().Rounds(), ElementsAre(10, 20));
  ASSERT_EQ(Read().Of(20).size(), 1u);
  EXPECT_EQ(Read().Of(20)[0].worker, "b");
  const size_t size = Bytes().size();
  OpenLog(/*last_round=*/20);  // nothing is lost: nothing is written
  EXPECT_EQ(Bytes().size(), size);
}

TEST_F(DigestLogTest, WhatDoesNotFitIsLeftOut) {
  const auto log = OpenLog();
  log->Append(1, "", 1, {2, 3});
  log->Append(1, std::string(65, 'w'), 1, {2, 3});
  log->Append(1, "a", 1, {2});
  EXPECT_THAT(Read().Rounds(), IsEmpty());
}

TEST_F(DigestLogTest, AFolderThatIsGoneHarmsNobody) {
  const auto log = DigestLog::Open(folder_ / "none", layout_, 0);
  log->Append(1, "a", 1, {2, 3});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
}

TEST_F(DigestLogTest, ManyThreads) {
  const auto log = OpenLog();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t round = 1; round <= 50; ++round) {
        log->Append(round, absl::StrCat("w", t), round, {round, round});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const DigestLogReader reader = Read();
  EXPECT_THAT(reader.damaged(), IsEmpty());
  EXPECT_EQ(reader.Rounds().size(), 50u);
  for (const uint64_t round : reader.Rounds()) EXPECT_EQ(reader.Of(round).size(), 4u);
}

}  // namespace
}  // namespace tally
