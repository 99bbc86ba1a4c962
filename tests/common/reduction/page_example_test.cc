// The example of docs/payload-formats.md, byte for byte.
#include <vector>

#include "common/base/status_matchers.h"
#include "common/reduction/reduction.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/reference.h"

namespace tally {
namespace {

using testing::IsOk;
using testing::VoteList;

// A word's bytes: the first, and seven times the rest.
void AppendWord(unsigned char first, unsigned char rest, Bytes* all) {
  for (int i = 0; i < 8; ++i) all->push_back(i == 0 ? first : rest);
}

struct Example {
  std::vector<Bytes> payloads;
  std::vector<Contribution> contributions;

  Example() {
    VoteList plus(130, 1), minus(130, -1);
    minus[129] = 1;
    VoteList partial = minus;
    std::fill(partial.begin() + 64, partial.begin() + 128, 0);
    for (const VoteList& votes : {plus, plus, minus, partial}) {
      payloads.push_back(testing::ReferencePack(votes));
    }
    for (const Bytes& payload : payloads) contributions.push_back({payload, 1});
  }
};

TEST(PageExample, Contribution) {
  Bytes expected;
  AppendWord(1, 0, &expected);
  AppendWord(0, 0, &expected);
  AppendWord(0, 0, &expected);
  AppendWord(2, 0, &expected);
  AppendWord(5, 0, &expected);
  EXPECT_EQ(Example().payloads[3], expected);
  TALLY_EXPECT_OK((*FindReduction("majority"))->CheckContribution({.count = 130}, expected));
}

TEST(PageExample, Majority) {
  Bytes expected;
  for (int plane = 0; plane < 2; ++plane) {
    if (plane == 0) AppendWord(2, 0, &expected);
    AppendWord(0, 0, &expected);
    AppendWord(0xff, 0xff, &expected);
    AppendWord(2, 0, &expected);
  }
  const Example example;
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes found,
                             (*FindReduction("majority"))
                                 ->Reduce({.count = 130, .zero_ties = true},
                                          example.contributions));
  EXPECT_EQ(found, expected);
}

TEST(PageExample, SignMean) {
  Bytes expected = {1, 4, 0, 0, 0, 0, 0, 0};
  for (int i = 0; i < 3; ++i) AppendWord(0, 0, &expected);
  AppendWord(0xff, 0xff, &expected);
  AppendWord(0xff, 0xff, &expected);
  AppendWord(1, 0, &expected);
  AppendWord(0, 0, &expected);
  AppendWord(0, 0, &expected);
  AppendWord(2, 0, &expected);
  for (unsigned char byte : {4, 3, 4, 0, 0, 0, 0, 0}) expected.push_back(byte);
  const Example example;
  TALLY_ASSERT_OK_AND_ASSIGN(
      const Bytes found,
      (*FindReduction("sign_mean"))->Reduce({.count = 130}, example.contributions));
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace tally
