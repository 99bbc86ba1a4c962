#include "common/reduction/dense_mean/dense_mean.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

void ExpectRefused(const Bytes& payload, absl::string_view message, uint32_t count = 2) {
  EXPECT_THAT(CheckDense(count, ValueDtype::kFloat32, payload),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message))));
}

TEST(DensePayload, ExampleOfThePage) {
  const Bytes expected = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
  EXPECT_EQ(WriteDense({1.0f, -2.0f}), expected);
  TALLY_EXPECT_OK(CheckDense(2, ValueDtype::kFloat32, expected));
}

TEST(DensePayload, NoElements) { ExpectRefused(WriteDense({}), "at least one element", 0); }

TEST(DensePayload, ShorterThanHead) { ExpectRefused(Bytes(7), "found 7 bytes"); }

TEST(DensePayload, Truncated) {
  Bytes payload = WriteDense({1, 2});
  payload.pop_back();
  ExpectRefused(payload, "expected 16 bytes, found 15");
}

TEST(DensePayload, Extended) {
  Bytes payload = WriteDense({1, 2});
  payload.push_back(0);
  ExpectRefused(payload, "expected 16 bytes, found 17");
}

TEST(DensePayload, OtherDtype) {
  for (unsigned char dtype : {0, 4, 255}) {
    Bytes payload = WriteDense({1, 2});
    payload[0] = dtype;
    ExpectRefused(payload, "expected dtype 1");
  }
  ExpectRefused(WriteDense({1, 2}, ValueDtype::kBfloat16), "expected values in float32, found bf16");
}

TEST(DensePayload, ReservedHeadByte) {
  Bytes payload = WriteDense({1, 2});
  payload[4] = 1;
  ExpectRefused(payload, "head byte 4 is reserved");
}

TEST(DensePayload, NonFiniteValueIsNamed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    ExpectRefused(WriteDense({1, bad}), "value 1 of 2 is not a finite number in float32");
  }
}

TEST(DensePayload, LargestAndDenormalValuesPass) {
  TALLY_EXPECT_OK(CheckDense(2, ValueDtype::kFloat32,
                             WriteDense({std::numeric_limits<float>::max(),
                                         std::numeric_limits<float>::denorm_min()})));
}

TEST(DenseMean, WeightedMeanInFloat64InTheOrderGiven) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  constexpr size_t kCount = 5000;
  std::vector<Bytes> payloads;
  std::vector<double> sums(kCount);
  const std::vector<double> weights = {3, 0, 1, 1e6, 0.5};
  double total = 0;
  for (double weight : weights) {
    std::vector<float> values(kCount);
    for (float& value : values) value = normal(random);
    for (size_t i = 0; i < kCount; ++i) sums[i] += weight * values[i];
    total += weight;
    payloads.push_back(WriteDense(values));
  }
  std::vector<Contribution> contributions;
  for (size_t k = 0; k < weights.size(); ++k) contributions.push_back({payloads[k], weights[k]});
  const DenseMean reduction;
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes aggregate,
                             reduction.Reduce({.count = kCount}, contributions));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto mean, reduction.Unpack({.count = kCount}, aggregate));
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(mean[i], static_cast<float>(sums[i] / total));
}

TEST(DenseMean, ThousandBf16ValuesAreAddedWide) {
  // In bf16 a sum of ones would stop at 256.
  const ChunkContext context{.count = 3, .dtype = ValueDtype::kBfloat16};
  const Bytes one = WriteDense({1, 1.0078125f, -3}, context.dtype);
  const std::vector<Contribution> many(1000, {one, 1});
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, DenseMean().Reduce(context, many));
  EXPECT_EQ(mean, one);
}

TEST(DenseMean, AnotherDtypeIsRefusedAndNothingIsAdded) {
  const ChunkContext context{.count = 1, .dtype = ValueDtype::kFloat16};
  const Bytes half = WriteDense({1}, context.dtype), whole = WriteDense({9});
  EXPECT_THAT(DenseMean().CheckContribution(context, whole),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected values in fp16, found float32")));
  const auto accumulator = DenseMean().NewAccumulator(context);
  TALLY_ASSERT_OK(accumulator->Add({{half, 1}}));
  EXPECT_THAT(accumulator->Add({{half, 1}, {whole, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fp16")));
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, accumulator->Finish());
  EXPECT_EQ(mean, half);
}

TEST(DenseMean, WhatDoesNotFitFp16IsRefusedByName) {
  const ChunkContext context{.count = 2, .dtype = ValueDtype::kFloat16};
  EXPECT_THAT(DenseMean().CheckContribution(context, DenseMean().Pack(context, {1, 70000}, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("value 1 of 2 is not a finite number in fp16")));
}

TEST(DenseMean, OfTheLargestValuesIsFinite) {
  const Bytes payload = WriteDense({std::numeric_limits<float>::max()});
  const std::vector<Contribution> many(255, {payload, kMaxWeight});
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, DenseMean().Reduce({.count = 1}, many));
  EXPECT_EQ(mean, payload);
}

TEST(DenseMean, BadWeightsAreRefusedAndNothingIsAdded) {
  const Bytes one = WriteDense({1}), nine = WriteDense({9});
  const auto accumulator = DenseMean().NewAccumulator({.count = 1});
  TALLY_ASSERT_OK(accumulator->Add({{one, 1}}));
  for (double bad : {-1.0, std::nan(""), 9.3e18, std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(accumulator->Add({{nine, 1}, {nine, bad}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weight")));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes mean, accumulator->Finish());
  EXPECT_EQ(mean, one);
}

}  // namespace
}  // namespace tally
