#include "common/base/random.h"

#include <array>
#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace tally {
namespace {

// The numbers are part of the ledger's meaning: a change here changes what old ledgers replay to.
TEST(Random, FixedForEver) {
  static_assert(Mix64(0) == 0);
  // SplitMix64 of seed 0, its first outputs.
  EXPECT_EQ(RandomWord(0, 0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(RandomWord(0, 1), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(RandomWord(0, 2), 0x06C45D188009454Fu);
}

TEST(Random, WordsOfAStreamDoNotRepeat) {
  const uint64_t key = StreamKey(1, 0, 1, RandomPurpose::kTie);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 100000; ++i) EXPECT_TRUE(seen.insert(RandomWord(key, i)).second) << i;
}

TEST(Random, EachPartOfTheKeyMakesAnotherStream) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t worker = 0; worker < 8; ++worker) {
      for (uint64_t round = 0; round < 8; ++round) {
        for (const auto purpose : {RandomPurpose::kTie, RandomPurpose::kZero}) {
          EXPECT_TRUE(keys.insert(StreamKey(seed, worker, round, purpose)).second);
        }
      }
    }
  }
}

// Each of the 64 bits is set in half of the words, within 5 standard deviations.
TEST(Random, BitsAreBalanced) {
  constexpr int kWords = 40000;
  const uint64_t key = StreamKey(42, 0, 7, RandomPurpose::kTie);
  std::array<int, 64> ones{};
  for (uint64_t i = 0; i < kWords; ++i) {
    const uint64_t word = RandomWord(key, i);
    for (int bit = 0; bit < 64; ++bit) ones[bit] += (word >> bit) & 1;
  }
  const double deviation = std::sqrt(kWords / 4.0);
  for (int bit = 0; bit < 64; ++bit) EXPECT_NEAR(ones[bit], kWords / 2, 5 * deviation) << bit;
}

// The tie breaker of one round says nothing about the next round's.
TEST(Random, RoundsAreIndependent) {
  constexpr int kWords = 10000;
  const uint64_t one = StreamKey(42, 0, 1, RandomPurpose::kTie);
  const uint64_t two = StreamKey(42, 0, 2, RandomPurpose::kTie);
  int equal = 0;
  for (uint64_t i = 0; i < kWords; ++i) {
    equal += 64 - __builtin_popcountll(RandomWord(one, i) ^ RandomWord(two, i));
  }
  EXPECT_NEAR(equal, kWords * 32, 5 * std::sqrt(kWords * 16.0));
}

}  // namespace
}  // namespace tally
