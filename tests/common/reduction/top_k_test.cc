#include "common/reduction/top_k/top_k.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gtest/gtest.h"

namespace tally {
namespace {

// The obvious way: a stable sort.
std::vector<uint32_t> ReferenceTopK(const std::vector<float>& scores, uint64_t k) {
  std::vector<uint32_t> indices(scores.size());
  std::iota(indices.begin(), indices.end(), 0u);
  std::stable_sort(indices.begin(), indices.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  indices.resize(k);
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<uint32_t> TopK(const std::vector<float>& scores, uint64_t k, size_t part) {
  TopKCut cut = TopKCut::Find(scores, k);
  std::vector<uint32_t> all;
  for (size_t first = 0; first < scores.size(); first += part) {
    std::vector<uint32_t> indices;
    cut.Select(absl::MakeConstSpan(scores).subspan(first, part), &indices);
    for (const uint32_t index : indices) all.push_back(static_cast<uint32_t>(first) + index);
  }
  return all;
}

TEST(TopK, IsTheSortsChoiceWhateverTheParts) {
  std::mt19937_64 random(1);
  std::exponential_distribution<float> score(1e4f);
  std::vector<float> scores(5000);
  for (float& s : scores) s = score(random);
  for (const uint64_t k : {0, 1, 2, 25, 500, 4999, 5000}) {
    for (const size_t part : {1, 64, 777, 5000}) EXPECT_EQ(TopK(scores, k, part), ReferenceTopK(scores, k));
  }
}

// Exactly k also where most scores are equal: parameters without any gradient score 0.
TEST(TopK, OfTiesTheFirstAreTaken) {
  std::mt19937_64 random(2);
  std::vector<float> scores(3000);
  for (float& s : scores) s = static_cast<float>(random() % 3);
  for (const uint64_t k : {1, 10, 999, 1500, 2999}) {
    EXPECT_EQ(TopK(scores, k, 100), ReferenceTopK(scores, k));
    EXPECT_EQ(TopK(scores, k, 100).size(), k);
  }
  EXPECT_EQ(TopK(std::vector<float>(10, 0.0f), 3, 4), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(TopK, SmallDifferencesAndAllMagnitudesCount) {
  const float one = 1.0f, more = std::nextafter(one, 2.0f), less = std::nextafter(one, 0.0f);
  const std::vector<float> scores = {less, 1e-45f, more, 3e38f, one, -1.0f, 1e-38f, -3e38f};
  for (uint64_t k = 0; k <= scores.size(); ++k) EXPECT_EQ(TopK(scores, k, 3), ReferenceTopK(scores, k));
}

}  // namespace
}  // namespace tally
