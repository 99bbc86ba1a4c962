#include "common/update/sign_step.h"

#include <cmath>
#include <random>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/update/lion_encode.h"
#include "common/update/update_rule.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/reference.h"
#include "tests/common/reduction/targets.h"
#include "tests/common/update/bits.h"

namespace tally {
namespace {

using testing::BitsOf;
using testing::ForEachTarget;
using testing::IsOk;
using testing::VoteList;

Bytes Aggregate(absl::string_view reduction, const ChunkContext& context,
                const std::vector<VoteList>& voters) {
  std::vector<Bytes> payloads;
  std::vector<Contribution> contributions;
  for (const VoteList& votes : voters) payloads.push_back(testing::ReferencePack(votes));
  for (const Bytes& payload : payloads) contributions.push_back({payload, 1});
  return *(*FindReduction(reduction))->Reduce(context, contributions);
}

// The definition in sign_step.h for the D of each element.
std::vector<float> Reference(const UpdateContext& context, const std::vector<float>& d,
                             std::vector<float> x) {
  const auto a = static_cast<float>(1 - context.learning_rate * context.weight_decay);
  const float minus_rate = -static_cast<float>(context.learning_rate);
  for (size_t i = 0; i < x.size(); ++i) {
    const float addend = d[i] == 0 ? -0.0f : minus_rate * d[i];
    x[i] = std::fma(x[i], a, addend);
  }
  return x;
}

std::vector<float> RandomParameters(size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) value = random() % 8 == 0 ? (random() & 1 ? 0.0f : -0.0f) : normal(random);
  return x;
}

void CheckStep(absl::string_view reduction, const ChunkContext& chunk,
               const std::vector<VoteList>& voters, std::mt19937_64& random) {
  const UpdateContext context{.learning_rate = 3e-4, .weight_decay = 0.1, .round = 1};
  const Bytes aggregate = Aggregate(reduction, chunk, voters);
  const auto d = reduction == "majority" ? testing::ReferenceMajority(chunk, voters)
                                         : testing::ReferenceSignMean(chunk, voters);
  const std::vector<float> start = RandomParameters(chunk.count, random);
  const std::vector<float> expected = Reference(context, d, start);
  ForEachTarget([&] {
    std::vector<float> x = start;
    TALLY_ASSERT_OK((*FindUpdateRule("sign_step"))
                        ->Apply(context, aggregate, absl::MakeSpan(x), {}));
    EXPECT_EQ(BitsOf(x), BitsOf(expected));
  });
}

TEST(SignStep, EqualsTheDefinitionForEveryTail) {
  std::mt19937_64 random(1);
  for (uint32_t count = 1; count <= 130; ++count) {
    for (const size_t voters : {1, 2, 5, 6}) {
      for (const double silent : {0.0, 0.6}) {
        std::vector<VoteList> votes;
        for (size_t v = 0; v < voters; ++v) {
          votes.push_back(testing::RandomVotes(count, silent, random));
        }
        SCOPED_TRACE(::testing::Message() << count << " elements, " << voters << " voters");
        CheckStep("majority", {.count = count, .tie_key = 5}, votes, random);
        CheckStep("majority", {.count = count, .zero_ties = true}, votes, random);
        CheckStep("sign_mean", {.count = count}, votes, random);
      }
    }
  }
}

TEST(SignStep, EqualsTheDefinitionForManyVoters) {
  std::mt19937_64 random(2);
  for (const size_t voters : {3, 4, 16, 64, 255}) {
    std::vector<VoteList> votes;
    for (size_t v = 0; v < voters; ++v) votes.push_back(testing::RandomVotes(1000, 0.1, random));
    CheckStep("majority", {.count = 1000, .tie_key = 5}, votes, random);
    CheckStep("sign_mean", {.count = 1000}, votes, random);
  }
}

// p = 1, g = 0, m = 0, lr = 0.1, wd = 0.1 gives 0.99, from the encoding to the step.
TEST(SignStep, OneStepOfDecayAlone) {
  std::vector<float> gradient = {0}, momentum = {0}, x = {1};
  Bytes vote;
  TALLY_ASSERT_OK(LionEncode(gradient, absl::MakeSpan(momentum), {}, &vote));
  const std::vector<Contribution> votes = {{vote, 1}};
  for (const char* reduction : {"majority", "sign_mean"}) {
    x = {1};
    const auto aggregate = (*FindReduction(reduction))->Reduce({.count = 1}, votes);
    TALLY_ASSERT_OK((*FindUpdateRule("sign_step"))
                        ->Apply({.learning_rate = 0.1, .weight_decay = 0.1}, *aggregate,
                                absl::MakeSpan(x), {}));
    EXPECT_EQ(x[0], 0.99f);
  }
}

TEST(SignStep, LaneWithoutVotersOnlyDecays) {
  std::vector<float> x = {1.0f, -1.0f, 0.0f, -0.0f};
  const VoteList nobody(4, 0);
  for (const char* reduction : {"majority", "sign_mean"}) {
    const Bytes aggregate = Aggregate(reduction, {.count = 4}, {nobody, nobody});
    TALLY_ASSERT_OK((*FindUpdateRule("sign_step"))
                        ->Apply({.learning_rate = 0.1, .weight_decay = 0.1}, aggregate,
                                absl::MakeSpan(x), {}));
  }
  const float a = static_cast<float>(1 - 0.1 * 0.1);
  EXPECT_EQ(BitsOf(x), BitsOf({a * a, -(a * a), 0.0f, -0.0f}));
}

// Liu et al. 2024, Theorem 3.4: outside the box |x| <= 1/wd the distance to it shrinks at least by
// (1 - lr * wd) a step, whatever is voted.
TEST(SignStep, DistanceToTheBoxShrinks) {
  constexpr double kRate = 0.01, kDecay = 0.5, kBox = 1 / kDecay;
  constexpr uint32_t kCount = 640;
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0, 8);
  for (const char* reduction : {"majority", "sign_mean"}) {
    std::vector<float> x(kCount);
    for (float& value : x) value = normal(random);
    for (uint64_t round = 0; round < 200; ++round) {
      std::vector<VoteList> votes;
      for (int v = 0; v < 4; ++v) votes.push_back(testing::RandomVotes(kCount, 0.1, random));
      const Bytes aggregate = Aggregate(reduction, {.count = kCount, .tie_key = round}, votes);
      const std::vector<float> before = x;
      TALLY_ASSERT_OK((*FindUpdateRule("sign_step"))
                          ->Apply({.learning_rate = kRate, .weight_decay = kDecay}, aggregate,
                                  absl::MakeSpan(x), {}));
      for (uint32_t i = 0; i < kCount; ++i) {
        const double distance_before = std::max(0.0, std::abs(before[i]) - kBox);
        const double distance = std::max(0.0, std::abs(x[i]) - kBox);
        ASSERT_LE(distance, (1 - kRate * kDecay) * distance_before + 1e-5) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tally
