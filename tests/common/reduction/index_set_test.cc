#include "common/reduction/index_set/index_set.h"

#include <cmath>
#include <random>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::_;
using Encoded = std::vector<unsigned char>;

IndexSet RandomSet(uint32_t count, double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution in(density);
  IndexSet set{count, {}};
  for (uint32_t i = 0; i < count; ++i) {
    if (in(random)) set.indices.push_back(i);
  }
  return set;
}

constexpr uint32_t kCounts[] = {1, 7, 64, 100, 65535, 65536, 65537, 200000};

TEST(IndexSet, ComesBackFromItsEncoding) {
  for (const uint32_t count : kCounts) {
    for (const double density : {0.0, 0.0001, 0.005, 0.1, 0.3, 0.5, 0.9, 1.0}) {
      const IndexSet set = RandomSet(count, density, count);
      const Encoded bytes = EncodeIndexSet(set);
      EXPECT_LE(bytes.size(), MaxIndexSetBytes(count));
      TALLY_ASSERT_OK_AND_ASSIGN(const IndexSet found, DecodeIndexSet(count, bytes));
      EXPECT_EQ(found, set) << count << " at " << density;
    }
  }
}

// The example of index_set.h, bit by bit.
TEST(IndexSet, ExampleOfThePage) {
  // Low bits 11000 and 00000, then 10 for 3 (high 0), 0 for none of high 1, 10 for 64, 0: 16 bits.
  const Encoded expected = {3, 5, 1, 0, 0x03, 0x24};
  EXPECT_EQ(EncodeIndexSet({100, {3, 64}}), expected);
}

TEST(IndexSet, NoneAndAllAreHeadsAlone) {
  EXPECT_EQ(EncodeIndexSet({100, {}}), (Encoded{0, 0, 0, 0}));
  IndexSet all{300, {}};
  for (uint32_t i = 0; i < 300; ++i) all.indices.push_back(i);
  EXPECT_EQ(EncodeIndexSet(all), (Encoded{1, 0, 299 & 0xff, 1}));
}

// METHODS: of a random mask Rice takes 9.1 bits an index at 0.5%, 4.8 at 10%.
TEST(IndexSet, BitsAnIndexAreNearTheEntropy) {
  for (const double density : {0.005, 0.02, 0.1}) {
    const IndexSet set = RandomSet(1 << 20, density, 3);
    const double bits = 8.0 * static_cast<double>(EncodeIndexSet(set).size()) /
                        static_cast<double>(set.indices.size());
    const double entropy =
        (-density * std::log2(density) - (1 - density) * std::log2(1 - density)) / density;
    EXPECT_GT(bits, 0.97 * entropy);  // the set has not quite the density
    EXPECT_LT(bits, 1.05 * entropy);
  }
}

// A mask that is dense in one tensor and empty in the next takes the smallest form of each.
TEST(IndexSet, EachSegmentHasItsOwnForm) {
  IndexSet set{4 << 16, {}};
  for (uint32_t i = 0; i < 1 << 16; ++i) set.indices.push_back(i);             // all
  for (uint32_t i = 0; i < 1 << 16; i += 2) set.indices.push_back((1 << 16) + i);  // half: a bitmap
  set.indices.push_back((3 << 16) + 9);                                        // one; the third none
  EXPECT_EQ(EncodeIndexSet(set).size(), 4u * 4 + 8192 + 2);
}

// Regular gaps favour Elias-Fano's fixed low bits; Rice is at its best with geometric ones.
TEST(IndexSet, TheSmallestFormIsTaken) {
  const auto kind_of = [](const IndexSet& set) { return EncodeIndexSet(set)[0]; };
  EXPECT_EQ(kind_of(RandomSet(60000, 0.5, 1)), 2);
  EXPECT_EQ(kind_of(RandomSet(60000, 0.01, 1)), 4);
  IndexSet clustered{60000, {}};  // long runs: each gap of 0 costs Rice k + 1 bits, Elias-Fano the same
  for (uint32_t i = 0; i < 60000; i += 12000) {
    for (uint32_t j = 0; j < 90; ++j) clustered.indices.push_back(i + j);
  }
  EXPECT_LT(EncodeIndexSet(clustered).size(), 60000u / 8);
  TALLY_ASSERT_OK_AND_ASSIGN(const IndexSet found, DecodeIndexSet(60000, EncodeIndexSet(clustered)));
  EXPECT_EQ(found, clustered);
}

TEST(IndexSet, EveryCutAndExtensionIsRefused) {
  for (const double density : {0.0, 0.02, 0.5, 1.0}) {
    const Encoded bytes = EncodeIndexSet(RandomSet(500, density, 4));
    for (size_t size = 0; size < bytes.size() + 5; ++size) {
      if (size == bytes.size()) continue;
      Encoded other = bytes;
      other.resize(size);
      EXPECT_THAT(DecodeIndexSet(500, other), StatusIs(absl::StatusCode::kInvalidArgument, _));
    }
  }
}

// What decodes is the one encoding of a set: no two payloads, and no two digests, for the same mask.
TEST(IndexSet, GarbageIsRefusedOrCanonical) {
  std::mt19937_64 random(5);
  size_t decoded = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const auto count = static_cast<uint32_t>(1 + random() % 300);
    Encoded bytes = EncodeIndexSet(RandomSet(count, 0.05 * static_cast<double>(random() % 20), random()));
    bytes[random() % bytes.size()] ^= static_cast<unsigned char>(1 << random() % 8);
    const auto set = DecodeIndexSet(count, bytes);
    if (!set.ok()) continue;
    ++decoded;
    EXPECT_EQ(EncodeIndexSet(*set), bytes);
  }
  EXPECT_GT(decoded, 0u);
}

TEST(IndexSet, ASetInALargerFormIsRefused) {
  Encoded bitmap = {2, 0, 0, 0};
  bitmap.resize(4 + 13);
  bitmap[4] = 1;  // element 0 of 100: Rice takes a byte
  EXPECT_THAT(DecodeIndexSet(100, bitmap),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("expected the encoding of")));
}

}  // namespace
}  // namespace tally
