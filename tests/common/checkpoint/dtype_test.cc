#include "common/checkpoint/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::HasSubstr;

// IEEE 754 binary16 by its definition, slow and obvious.
double HalfByDefinition(uint16_t half) {
  const double sign = half & 0x8000 ? -1.0 : 1.0;
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(DType, EveryHalfIsExact) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double expected = HalfByDefinition(half);
    const float found = HalfToFloat(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(found), expected) << bits;
    }
    EXPECT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
  }
}

TEST(DType, BFloat16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(BFloat16ToFloat(0x3F80), 1.0f);
  EXPECT_EQ(BFloat16ToFloat(0xC049), -3.140625f);
  EXPECT_EQ(BFloat16ToFloat(0x0001), 0x1p-133f);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(0x7FC0)));
  EXPECT_EQ(std::bit_cast<uint32_t>(BFloat16ToFloat(0x8000)), 0x80000000u);
}

TEST(DType, Float64RoundsToNearestEven) {
  const std::vector<double> values = {1.0 + 0x1p-24, 1.0 + 0x3p-24, 1e300, -1e300, 0x1p-149, 0.1};
  std::vector<float> out(values.size());
  TALLY_ASSERT_OK(ConvertToFloat(DType::kF64, BytesOf(values), absl::MakeSpan(out)));
  EXPECT_EQ(out, (std::vector<float>{1.0f, 1.0f + 0x1p-22f, INFINITY, -INFINITY, 0x1p-149f, 0.1f}));
}

TEST(DType, Float32KeepsItsBitsAndMayLieUnaligned) {
  const std::vector<uint32_t> bits = {0x7FA00001, 0x80000000, 0x00000001, 0xFF800000};
  std::string bytes = "x";
  absl::StrAppend(&bytes, BytesOf(bits));
  std::vector<float> out(bits.size());
  TALLY_ASSERT_OK(ConvertToFloat(DType::kF32, absl::string_view(bytes).substr(1),
                                 absl::MakeSpan(out)));
  EXPECT_EQ(std::memcmp(out.data(), bits.data(), bytes.size() - 1), 0);
}

TEST(DType, OthersAreRefused) {
  float out[2];
  EXPECT_THAT(ConvertToFloat(DType::kI32, "12345678", absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found I32")));
  EXPECT_THAT(ConvertToFloat(DType::kF32, "1234567", absl::MakeSpan(out)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found 7 bytes")));
}

TEST(DType, NamesComeBack) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(DTypeName(DType::kF8E5M2), "F8_E5M2");
  EXPECT_EQ(DTypeSize(DType::kBF16), 2u);
  EXPECT_TRUE(IsFloatingPoint(DType::kF16));
  EXPECT_FALSE(IsFloatingPoint(DType::kBool));
  EXPECT_EQ(DTypeFromName("f32"), std::nullopt);
}

}  // namespace
}  // namespace tally
