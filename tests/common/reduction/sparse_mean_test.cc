#include "common/reduction/sparse_mean/sparse_mean.h"

#include <cmath>
#include <limits>
#include <random>

#include "common/base/status_matchers.h"
#include "common/reduction/value_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const SparseMean kSparse;

ChunkContext Own(uint32_t count, ValueDtype dtype = ValueDtype::kFloat32) {
  return {.count = count, .dtype = dtype};
}
ChunkContext Over(const IndexSet& mask, ValueDtype dtype = ValueDtype::kFloat32) {
  return {.count = mask.count, .dtype = dtype, .mask = &mask};
}

// Examples of sparse_payload.h.
TEST(SparsePayload, ExamplesOfThePage) {
  const IndexSet mask{100, {3, 64}};
  EXPECT_EQ(WriteSparse(Over(mask), {}, {1.0f, -2.0f}),
            (Bytes{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}));
  EXPECT_EQ(WriteSparse(Over(mask, ValueDtype::kSign), {}, {1.0f, -2.0f}),
            (Bytes{4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}));
}

// METHODS: where masks overlap, divide by the number of contributors of that coordinate.
TEST(SparseMean, EachElementIsDividedByThoseWhoHaveIt) {
  const ChunkContext context = Own(6);
  const Bytes a = WriteSparse(context, {6, {0, 2}}, {1.0f, 3.0f});
  const Bytes b = WriteSparse(context, {6, {2, 5}}, {9.0f, -4.0f});
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, kSparse.Reduce(context, {{a, 1}, {b, 3}}));
  TALLY_ASSERT_OK_AND_ASSIGN(const SparseView view, ParseSparse(context, mean));
  EXPECT_THAT(view.own.indices, ElementsAre(0, 2, 5));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto values, kSparse.Unpack(context, mean));
  EXPECT_THAT(values, ElementsAre(1.0f, 0.0f, 7.5f, 0.0f, 0.0f, -4.0f));
}

TEST(SparseMean, AZeroWeightHasNoPartInAnElement) {
  const ChunkContext context = Own(3);
  const Bytes a = WriteSparse(context, {3, {0}}, {1.0f}), b = WriteSparse(context, {3, {1}}, {5.0f});
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, kSparse.Reduce(context, {{a, 1}, {b, 0}}));
  TALLY_ASSERT_OK_AND_ASSIGN(const SparseView view, ParseSparse(context, mean));
  EXPECT_THAT(view.own.indices, ElementsAre(0));
}

// Over one mask: the very bits of dense_mean on the elements gathered.
TEST(SparseMean, OverAMaskItIsTheDenseMeanOfItsElements) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  IndexSet mask{20000, {}};
  for (uint32_t i = 0; i < mask.count; ++i) {
    if (random() % 3 == 0) mask.indices.push_back(i);
  }
  const auto n = static_cast<uint32_t>(mask.indices.size());
  for (const ValueDtype dtype : {ValueDtype::kFloat32, ValueDtype::kBfloat16, ValueDtype::kFloat16}) {
    const Reduction& dense = **FindReduction("dense_mean");
    const ChunkContext gathered{.count = n, .dtype = dtype};
    std::vector<Bytes> sparse_payloads, dense_payloads;
    for (int worker = 0; worker < 5; ++worker) {
      std::vector<float> values(n);
      for (float& value : values) value = normal(random);
      sparse_payloads.push_back(WriteSparse(Over(mask, dtype), {}, values));
      dense_payloads.push_back(dense.Pack(gathered, values, 0));
    }
    std::vector<Contribution> of_sparse, of_dense;
    for (size_t i = 0; i < 5; ++i) {
      of_sparse.push_back({sparse_payloads[i], 1.0 + static_cast<double>(i)});
      of_dense.push_back({dense_payloads[i], 1.0 + static_cast<double>(i)});
    }
    TALLY_ASSERT_OK_AND_ASSIGN(const Bytes found, kSparse.Reduce(Over(mask, dtype), of_sparse));
    TALLY_ASSERT_OK_AND_ASSIGN(const Bytes expected, dense.Reduce(gathered, of_dense));
    EXPECT_EQ(Bytes(found.begin() + 8, found.end()), Bytes(expected.begin() + 8, expected.end()));
  }
}

TEST(SparseMean, SignsAverageToMultiplesOfTheirScales) {
  const IndexSet mask{70, {0, 1, 69}};
  const ChunkContext signs = Over(mask, ValueDtype::kSign);
  const Bytes a = WriteSparse(signs, {}, {1.0f, -1.0f, 4.0f});   // scale 2
  const Bytes b = WriteSparse(signs, {}, {-1.0f, -1.0f, 1.0f});  // scale 1
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, kSparse.Reduce(signs, {{a, 1}, {b, 1}}));
  const ChunkContext values = Over(mask, ValueDtype::kBfloat16);
  TALLY_ASSERT_OK(kSparse.CheckAggregate(values, mean));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto found, kSparse.Unpack(values, mean));
  EXPECT_EQ(found[0], 0.5f);
  EXPECT_EQ(found[1], -1.5f);
  EXPECT_EQ(found[69], 1.5f);
}

// A worker whose optimiser has stopped moves nothing, whatever the signs of its zeros.
TEST(SparseMean, SignsOfZerosAloneAreZero) {
  const IndexSet mask{10, {1, 2, 3}};
  const Bytes payload = WriteSparse(Over(mask, ValueDtype::kSign), {}, {0.0f, 0.0f, 0.0f}, 7);
  TALLY_ASSERT_OK_AND_ASSIGN(const SparseView view, ParseSparse(Over(mask, ValueDtype::kSign), payload));
  EXPECT_EQ(view.scale, 0.0f);
}

TEST(SparseMean, AnEmptyPartOfTheMaskHasAnEmptyMean) {
  const IndexSet mask{10, {}};
  const Bytes payload = WriteSparse(Over(mask), {}, {});
  TALLY_EXPECT_OK(kSparse.CheckContribution(Over(mask), payload));
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, kSparse.Reduce(Over(mask), {{payload, 1}}));
  EXPECT_EQ(mean, payload);
}

TEST(SparsePayload, NotANumberIsNamedByItsElement) {
  const IndexSet mask{100, {3, 64}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(CheckSparse(Over(mask), WriteSparse(Over(mask), {}, {1.0f, nan})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("value 1 of 2, of element 64")));
  for (const float bad : {nan, -1.0f, HUGE_VALF, std::numeric_limits<float>::max()}) {
    Bytes payload = WriteSparse(Over(mask, ValueDtype::kSign), {}, {1.0f, 1.0f});
    std::memcpy(&payload[8], &bad, sizeof(bad));
    EXPECT_THAT(CheckSparse(Over(mask, ValueDtype::kSign), payload),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("scale")));
  }
}

// Signs sent for values, a set where there is a mask: never taken for the other.
TEST(SparsePayload, AnotherDtypeOrFormIsRefused) {
  const IndexSet mask{100, {3, 64}};
  EXPECT_THAT(CheckSparse(Over(mask), WriteSparse(Over(mask, ValueDtype::kBfloat16), {}, {1, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected dtype 1 (float32)")));
  EXPECT_THAT(CheckSparse(Over(mask), WriteSparse(Own(100), mask, {1, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected form 0")));
  EXPECT_THAT(CheckSparse(Own(100), WriteSparse(Over(mask), {}, {1, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected form 1")));
}

TEST(SparsePayload, AnIndexPastTheChunkIsRefused) {
  const Bytes payload = WriteSparse(Own(100), {100, {3, 99}}, {1, 2});
  EXPECT_THAT(CheckSparse(Own(64), payload), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace tally
