#include "server/round/greedy_soup.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::ElementsAre;

SoupScore Of100(uint64_t correct, double loss = 50) { return {correct, 100, loss}; }

const std::vector<SoupCandidate> kThree = {{0, Of100(70)}, {1, Of100(90)}, {2, Of100(80)}};

TEST(GreedySoup, BestFirstThenOneByOne) {
  SoupDecision decision = DecideSoup(kThree, {});
  EXPECT_FALSE(decision.done);
  EXPECT_THAT(decision.members, ElementsAre(1));
  decision = DecideSoup(kThree, {Of100(90)});
  EXPECT_FALSE(decision.done);
  EXPECT_THAT(decision.members, ElementsAre(1, 2));
  decision = DecideSoup(kThree, {Of100(90), Of100(91)});
  EXPECT_FALSE(decision.done);
  EXPECT_THAT(decision.members, ElementsAre(0, 1, 2));
  decision = DecideSoup(kThree, {Of100(90), Of100(91), Of100(92)});
  EXPECT_TRUE(decision.done);
  EXPECT_THAT(decision.members, ElementsAre(0, 1, 2));
}

struct Row {
  const char* what;
  std::vector<SoupScore> trials;
  std::vector<uint32_t> soup;
};

TEST(GreedySoup, KeepsOnlyWhatIsStrictlyBetter) {
  const std::vector<Row> rows = {
      {"none helps", {Of100(90), Of100(89), Of100(85)}, {1}},
      {"equal is not better", {Of100(90), Of100(90), Of100(90)}, {1}},
      {"equal with a lower loss is", {Of100(90), Of100(90, 49), Of100(90, 49)}, {1, 2}},
      {"the second is left out, the third joins", {Of100(90), Of100(88), Of100(93)}, {0, 1}},
      {"better than the best alone, not than the soup", {Of100(90), Of100(95), Of100(94)}, {1, 2}},
      {"a score that is not finite", {Of100(90), Of100(99, std::nan("")), Of100(91)}, {0, 1}},
      {"nobody scored", {Of100(90), SoupScore(), SoupScore()}, {1}},
  };
  for (const Row& row : rows) {
    const SoupDecision decision = DecideSoup(kThree, row.trials);
    EXPECT_TRUE(decision.done) << row.what;
    EXPECT_EQ(decision.members, row.soup) << row.what;
  }
}

TEST(GreedySoup, OneWorkerIsItsOwnSoup) {
  const SoupDecision decision = DecideSoup({{4, Of100(1)}}, {});
  EXPECT_TRUE(decision.done);
  EXPECT_THAT(decision.members, ElementsAre(4));
}

TEST(GreedySoup, EqualWorkersJoinByIndexWhateverTheirOrder) {
  const SoupCandidate a{2, Of100(50)}, b{5, Of100(50)}, c{9, Of100(50)};
  for (const auto& order : {std::vector{a, b, c}, {c, b, a}, {b, c, a}}) {
    EXPECT_THAT(DecideSoup(order, {}).members, ElementsAre(2));
    EXPECT_THAT(DecideSoup(order, {Of100(50)}).members, ElementsAre(2, 5));
  }
}

// The best one's own score is of other rows than the averages': it is not what they are compared with.
TEST(GreedySoup, TheBestAloneIsScoredOnTheRowsOfAll) {
  EXPECT_THAT(DecideSoup(kThree, {Of100(75), Of100(76), Of100(76)}).members, ElementsAre(1, 2));
}

// Shares, not numbers: who scored less examples is no worse for it.
TEST(GreedySoup, ComparesShares) {
  EXPECT_TRUE(IsStrictlyBetter({9, 10, 5}, {80, 100, 5}));
  EXPECT_FALSE(IsStrictlyBetter({80, 100, 5}, {9, 10, 5}));
  EXPECT_FALSE(IsStrictlyBetter({1, 2, 1}, {2, 4, 2}));
  EXPECT_TRUE(IsStrictlyBetter({0, 10, 5}, {0, 0, 0}));
  EXPECT_TRUE(IsStrictlyBetter({0, 10, 5},
                               {10, 10, std::numeric_limits<double>::infinity()}));
}

}  // namespace
}  // namespace tally
