#include "server/staging/staged_contributions.h"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

class StagedContributionsTest : public ::testing::Test {
 protected:
  StagedContributionsTest() {
    std::string pattern = ::testing::TempDir() + "/staged.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    spec_.set_round(3);
    spec_.set_local_steps(5);
  }
  ~StagedContributionsTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<StagedContributions> Open() {
    auto opened = StagedContributions::Open(folder_, spec_, 2);
    EXPECT_THAT(opened.status(), testing::IsOk());
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static uint64_t DigestOf(const Bytes& bytes) { return Digest64(bytes.data(), bytes.size()); }

  absl::Status Append(StagedContributions& staged, uint32_t worker, uint32_t attempt,
                      uint32_t index, const Bytes& payload) {
    return staged.Append(worker, attempt, index, DigestOf(payload), payload);
  }

  v1::ContributionEnd End() {
    v1::ContributionEnd end;
    end.set_round(3);
    end.set_chunks(2);
    Digester digester;
    for (const Bytes& payload : {kFirst, kSecond}) digester.AddUint64(DigestOf(payload));
    end.set_digest(digester.Finish());
    end.set_samples(8);
    return end;
  }

  const Bytes kFirst = Bytes(100, 1);
  const Bytes kSecond = Bytes(60, 2);
  std::string folder_;
  v1::RoundSpec spec_;
};

TEST_F(StagedContributionsTest, AreTakenUpByTheSameRound) {
  {
    const auto staged = Open();
    EXPECT_TRUE(staged->found().empty());
    TALLY_ASSERT_OK(Append(*staged, 1, 0, 0, kFirst));
    TALLY_ASSERT_OK(Append(*staged, 4, 0, 0, kFirst));
    TALLY_ASSERT_OK(Append(*staged, 4, 0, 1, kSecond));
    TALLY_ASSERT_OK(staged->End(4, 0, End()));
  }
  const auto staged = Open();
  ASSERT_EQ(staged->found().size(), 2u);
  const StagedPart& cut = staged->found()[0];
  EXPECT_EQ(cut.worker, 1u);
  EXPECT_EQ(cut.digests[0], DigestOf(kFirst));
  EXPECT_FALSE(cut.digests[1].has_value());
  EXPECT_FALSE(cut.end.has_value());
  const StagedPart& whole = staged->found()[1];
  EXPECT_EQ(whole.worker, 4u);
  EXPECT_EQ(whole.bytes, kFirst.size() + kSecond.size());
  ASSERT_TRUE(whole.end.has_value());
  EXPECT_EQ(whole.end->samples(), 8u);
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes read, staged->Read(4, 1));
  EXPECT_EQ(read, kSecond);
}

TEST_F(StagedContributionsTest, AnotherRoundFindsNothing) {
  TALLY_ASSERT_OK(Append(*Open(), 1, 0, 0, kFirst));
  spec_.set_local_steps(6);  // the same number, decided anew
  EXPECT_TRUE(Open()->found().empty());
}

TEST_F(StagedContributionsTest, ALaterAttemptReplacesAnEarlierOne) {
  const auto staged = Open();
  TALLY_ASSERT_OK(Append(*staged, 1, 0, 0, kFirst));
  TALLY_ASSERT_OK(Append(*staged, 1, 1, 0, kSecond));
  TALLY_ASSERT_OK(Append(*staged, 1, 0, 1, kFirst));  // late, and dropped
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes read, staged->Read(1, 0));
  EXPECT_EQ(read, kSecond);
  EXPECT_FALSE(staged->Read(1, 1).ok());
}

}  // namespace
}  // namespace tally
