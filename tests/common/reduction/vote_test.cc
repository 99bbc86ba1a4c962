// majority and sign_mean against their references, on every instruction set.
#include <random>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/reduction/reduction.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/reference.h"
#include "tests/common/reduction/targets.h"

namespace tally {
namespace {

using ::testing::HasSubstr;
using testing::ForEachTarget;
using testing::IsOk;
using testing::StatusIs;
using testing::VoteList;

const Reduction& Find(absl::string_view name) { return **FindReduction(name); }

std::vector<Contribution> Contributions(const std::vector<Bytes>& payloads) {
  std::vector<Contribution> contributions;
  for (const Bytes& payload : payloads) contributions.push_back({payload, 1});
  return contributions;
}

void ExpectResult(const Reduction& reduction, const ChunkContext& context,
                  const absl::StatusOr<Bytes>& aggregate, const std::vector<float>& expected) {
  TALLY_ASSERT_OK(aggregate);
  TALLY_EXPECT_OK(reduction.CheckAggregate(context, *aggregate));
  TALLY_ASSERT_OK_AND_ASSIGN(const std::vector<float> found,
                             reduction.Unpack(context, *aggregate));
  EXPECT_EQ(found, expected);
}

// Both reductions, in one pass and one by one, on every target.
void CheckVote(ChunkContext context, const std::vector<VoteList>& voters) {
  std::vector<Bytes> payloads;
  for (const VoteList& votes : voters) {
    payloads.push_back(testing::ReferencePack(votes));
    TALLY_ASSERT_OK(Find("majority").CheckContribution(context, payloads.back()));
    ASSERT_EQ(testing::ReferenceVotes(context.count, payloads.back()), votes);
  }
  const std::vector<Contribution> contributions = Contributions(payloads);
  ForEachTarget([&] {
    for (const char* name : {"majority", "sign_mean"}) {
      SCOPED_TRACE(name);
      const Reduction& reduction = Find(name);
      const auto expected = absl::string_view(name) == "majority"
                                ? testing::ReferenceMajority(context, voters)
                                : testing::ReferenceSignMean(context, voters);
      const absl::StatusOr<Bytes> at_once = reduction.Reduce(context, contributions);
      ExpectResult(reduction, context, at_once, expected);
      const auto accumulator = reduction.NewAccumulator(context);
      for (const Contribution& one : contributions) TALLY_ASSERT_OK(accumulator->Add({one}));
      TALLY_ASSERT_OK_AND_ASSIGN(const Bytes one_by_one, accumulator->Finish());
      EXPECT_EQ(one_by_one, *at_once);
    }
  });
}

ChunkContext Context(size_t count, bool zero_ties) {
  return {.first_lane = 77, .count = static_cast<uint32_t>(count), .tie_key = 0x1234567890abcdef,
          .zero_ties = zero_ties};
}

TEST(Vote, EveryCombinationOfUpToSevenVotersAndSilences) {
  for (size_t voters = 1; voters <= 7; ++voters) {
    // For each set of silent voters, lanes that hold each combination of votes.
    const size_t run = std::max<size_t>(64, size_t{1} << voters);
    const size_t count = run << voters;
    std::vector<VoteList> votes(voters, VoteList(count));
    for (size_t i = 0; i < count; ++i) {
      const size_t silent = i / run;
      for (size_t v = 0; v < voters; ++v) {
        votes[v][i] = (silent >> v) & 1 ? 0 : (i >> v) & 1 ? 1 : -1;
      }
    }
    for (bool zero_ties : {false, true}) {
      SCOPED_TRACE(::testing::Message() << voters << " voters, zero_ties " << zero_ties);
      CheckVote(Context(count, zero_ties), votes);
    }
  }
}

TEST(Vote, EveryTail) {
  std::mt19937_64 random(1);
  for (size_t count = 1; count <= 130; ++count) {
    for (size_t voters = 1; voters <= 7; ++voters) {
      std::vector<VoteList> votes;
      for (size_t v = 0; v < voters; ++v) {
        votes.push_back(testing::RandomVotes(count, count % 2 ? 0.3 : 0, random));
      }
      SCOPED_TRACE(::testing::Message() << count << " elements, " << voters << " voters");
      CheckVote(Context(count, count % 3 == 0), votes);
    }
  }
}

TEST(Vote, ManyVotersOverManyBlocks) {
  std::mt19937_64 random(2);
  for (size_t voters : {8, 9, 15, 16, 17, 24, 31, 32, 33, 64, 127, 128, 254, 255}) {
    const size_t count = 64 * 1025 + 13;
    std::vector<VoteList> votes;
    for (size_t v = 0; v < voters; ++v) {
      votes.push_back(testing::RandomVotes(count, voters % 2 ? 0.01 : 0, random));
    }
    SCOPED_TRACE(voters);
    CheckVote(Context(count, voters % 3 == 0), votes);
  }
}

TEST(Vote, PayloadsAtOddAddresses) {
  std::mt19937_64 random(3);
  const ChunkContext context = Context(64 * 20 + 5, false);
  std::vector<VoteList> votes(4);
  std::vector<Bytes> shifted(4);
  std::vector<Contribution> contributions(4);
  for (size_t v = 0; v < 4; ++v) {
    votes[v] = testing::RandomVotes(context.count, 0.2, random);
    shifted[v] = testing::ReferencePack(votes[v]);
    shifted[v].insert(shifted[v].begin(), v + 1, 0);
    contributions[v].payload = ByteSpan(shifted[v]).subspan(v + 1);
  }
  ExpectResult(Find("majority"), context, Find("majority").Reduce(context, contributions),
               testing::ReferenceMajority(context, votes));
}

TEST(Vote, MoreThan255VotersAreRefusedAndNothingIsCounted) {
  const ChunkContext context = Context(64, false);
  const Bytes plus = testing::ReferencePack(VoteList(64, 1));
  const auto accumulator = Find("sign_mean").NewAccumulator(context);
  TALLY_ASSERT_OK(accumulator->Add(std::vector<Contribution>(255, {plus, 1})));
  EXPECT_THAT(accumulator->Add({{plus, 1}}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("found 256")));
  ExpectResult(Find("sign_mean"), context, accumulator->Finish(), std::vector<float>(64, 1));
}

TEST(Vote, MemoryIsBoundedByPlanesNotVoters) {
  const ChunkContext context = Context(64 * 1024, false);
  const Bytes plus = testing::ReferencePack(VoteList(context.count, 1));
  const auto accumulator = Find("majority").NewAccumulator(context);
  for (int i = 0; i < 255; ++i) TALLY_ASSERT_OK(accumulator->Add({{plus, 1}}));
  EXPECT_LE(accumulator->memory(), 2 * 8 * plus.size());
}

TEST(Vote, TiesAreUnbiasedAndDifferBetweenLanesAndKeys) {
  ChunkContext context = Context(64 * 4096, false);
  const Bytes plus = testing::ReferencePack(VoteList(context.count, 1));
  const Bytes minus = testing::ReferencePack(VoteList(context.count, -1));
  const std::vector<Contribution> contributions = {{plus, 1}, {minus, 1}};
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes first, Find("majority").Reduce(context, contributions));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto signs, Find("majority").Unpack(context, first));
  double sum = 0;
  for (float sign : signs) sum += sign;
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(static_cast<double>(context.count)));
  context.tie_key += 1;
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes second, Find("majority").Reduce(context, contributions));
  EXPECT_NE(first, second);
}

TEST(Vote, PackSendsSignsRandomBitsForZerosAndSilenceForZeroLanes) {
  std::vector<float> values(64 * 3, 1.0f);
  values[3] = -2.0f;
  values[5] = 0.0f;
  values[6] = -0.0f;
  for (size_t i = 64; i < 128; ++i) values[i] = i % 2 ? 0.0f : -0.0f;
  const uint64_t key = 99, zeros = RandomWord(key, 10);
  const Bytes payload = Find("majority").Pack({.first_lane = 10}, values, key);
  TALLY_ASSERT_OK(Find("majority").CheckContribution({.count = 192}, payload));
  const VoteList votes = testing::ReferenceVotes(192, payload);
  for (size_t i = 0; i < 192; ++i) {
    int expected = i / 64 == 1 ? 0 : 1;
    if (i == 3) expected = -1;
    if (i == 5 || i == 6) expected = (zeros >> i) & 1 ? 1 : -1;
    EXPECT_EQ(votes[i], expected) << i;
  }
}

}  // namespace
}  // namespace tally
