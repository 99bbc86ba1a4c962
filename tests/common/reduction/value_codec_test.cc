#include "common/reduction/value_codec.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/reduction/targets.h"

namespace tally {
namespace {

using testing::ForEachTarget;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Format {
  ValueDtype dtype;
  int exponent_bits;
  int mantissa_bits;
};
constexpr Format kHalves[] = {{ValueDtype::kBfloat16, 8, 7}, {ValueDtype::kFloat16, 5, 10}};

// IEEE 754's definition, field by field.
double ValueOf(const Format& format, uint16_t bits) {
  const int exponent = bits >> format.mantissa_bits & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << format.exponent_bits) - 1) return mantissa == 0 ? sign * kInf : NAN;
  const int lead = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return sign * std::ldexp(lead + mantissa, std::max(exponent, 1) - bias - format.mantissa_bits);
}

// The nearest of all that there are, the even one of two: non-negative values rise with their bits,
// and the first that does not fit counts as one more of them.
uint16_t NearestBits(const Format& format, float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const auto infinity = static_cast<uint16_t>(((1 << format.exponent_bits) - 1)
                                              << format.mantissa_bits);
  const double beyond = std::ldexp(1.0, 1 << (format.exponent_bits - 1));
  uint16_t low = 0, high = infinity;
  const auto at = [&](uint16_t bits) { return bits == infinity ? beyond : ValueOf(format, bits); };
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (at(middle) <= magnitude ? low : high) = middle;
  }
  const double down = magnitude - at(low), up = at(high) - magnitude;
  const bool take_high = up < down || (up == down && high % 2 == 0);
  return static_cast<uint16_t>((take_high ? high : low) | (std::signbit(value) ? 0x8000 : 0));
}

std::vector<uint16_t> Encode16(ValueDtype dtype, const std::vector<float>& values) {
  std::vector<unsigned char> bytes(BytesOfValues(dtype, values.size()) + 1);
  EncodeValues(dtype, values, bytes.data() + 1);  // at an odd address
  std::vector<uint16_t> bits(values.size());
  std::memcpy(bits.data(), bytes.data() + 1, 2 * bits.size());
  return bits;
}

std::vector<float> Floats() {
  std::mt19937 random(3);
  std::vector<float> values = {0.0f,      -0.0f,    0x1p-14f,       0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                               65504.0f,  65519.9f, 65520.0f,       1e30f,    0x1p-133f, 0x1p-149f,
                               0x1.fep+127f, std::numeric_limits<float>::max()};
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) values.push_back(value);
    // Where fp16 has its values and its denormals.
    values.push_back(std::ldexp(static_cast<float>(static_cast<int32_t>(random())),
                                static_cast<int>(random() % 48) - 58));
  }
  return values;
}

TEST(ValueCodec, RoundsToTheNearestValue) {
  const std::vector<float> values = Floats();
  ForEachTarget([&] {
    for (const Format& format : kHalves) {
      const std::vector<uint16_t> found = Encode16(format.dtype, values);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(found[i], NearestBits(format, values[i])) << values[i];
      }
    }
  });
}

TEST(ValueCodec, DecodesEveryFiniteValueExactly) {
  ForEachTarget([&] {
    for (const Format& format : kHalves) {
      std::vector<uint16_t> bits;
      for (uint32_t i = 0; i < 65536; ++i) {
        if (std::isfinite(ValueOf(format, static_cast<uint16_t>(i)))) bits.push_back(i);
      }
      std::vector<unsigned char> bytes(2 * bits.size() + 1);
      std::memcpy(bytes.data() + 1, bits.data(), 2 * bits.size());
      std::vector<float> values(bits.size());
      DecodeValues(format.dtype, bytes.data() + 1, absl::MakeSpan(values));
      for (size_t i = 0; i < bits.size(); ++i) {
        ASSERT_EQ(values[i], ValueOf(format, bits[i])) << bits[i];
        ASSERT_EQ(std::signbit(values[i]), (bits[i] & 0x8000) != 0);
      }
      EXPECT_EQ(Encode16(format.dtype, values), bits);
    }
  });
}

TEST(ValueCodec, FindsTheFirstValueThatIsNotFinite) {
  ForEachTarget([&] {
    for (ValueDtype dtype : {ValueDtype::kFloat32, ValueDtype::kBfloat16, ValueDtype::kFloat16}) {
      for (size_t n : {1, 7, 8, 9, 33, 100}) {
        for (float bad : {kInf, -kInf, std::nanf("")}) {
          std::vector<float> values(n, -1.5f);
          std::vector<unsigned char> bytes(BytesOfValues(dtype, n));
          EncodeValues(dtype, values, bytes.data());
          EXPECT_EQ(FirstNotFinite(dtype, bytes.data(), n), n);
          if (std::isnan(bad)) continue;  // what a NaN becomes is nobody's contract
          values[n / 2] = values[n - 1] = bad;
          EncodeValues(dtype, values, bytes.data());
          EXPECT_EQ(FirstNotFinite(dtype, bytes.data(), n), n / 2);
        }
      }
    }
    const float nan = std::nanf("");
    EXPECT_EQ(FirstNotFinite(ValueDtype::kFloat32,
                             reinterpret_cast<const unsigned char*>(&nan), 1), 0u);
    for (const Format& format : kHalves) {
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<uint16_t>(bits);
        unsigned char bytes[2];
        std::memcpy(bytes, &half, 2);
        ASSERT_EQ(FirstNotFinite(format.dtype, bytes, 1) == 1,
                  std::isfinite(ValueOf(format, half)));
      }
    }
  });
}

// Few addends and many, sizes around a block's, totals that are powers of two and others.
TEST(ValueCodec, MeanIsThePlainLoopsBitForBit) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const auto& [addend_count, equal_weights] :
       {std::pair{5, false}, {4, true}, {3, true}, {8, true}, {9, false}, {33, false}}) {
    ForEachTarget([&, count = addend_count, equal = equal_weights] {
      for (ValueDtype dtype : {ValueDtype::kFloat32, ValueDtype::kBfloat16, ValueDtype::kFloat16}) {
        for (size_t n : {1, 3, 8, 31, 32, 65, 1000, 1025, 2100}) {
          std::vector<std::vector<unsigned char>> payloads;
          std::vector<WeightedValues> addends;
          std::vector<double> plain(n), sums(n);
          double total = 0;
          for (int k = 0; k < count; ++k) {
            std::vector<float> values(n);
            for (float& value : values) value = normal(random);
            payloads.emplace_back(BytesOfValues(dtype, n));
            EncodeValues(dtype, values, payloads.back().data());
            DecodeValues(dtype, payloads.back().data(), absl::MakeSpan(values));
            const double weight = equal ? 0.5 : k == 2 ? 0 : 1.5 * k + 1;
            addends.push_back({payloads.back().data(), weight});
            for (size_t i = 0; i < n; ++i) plain[i] += weight * values[i];
            AddWeighted(dtype, addends.back(), absl::MakeSpan(sums));
            total += weight;
          }
          EXPECT_EQ(sums, plain);
          std::vector<float> means(n);
          for (size_t i = 0; i < n; ++i) means[i] = static_cast<float>(plain[i] / total);
          std::vector<unsigned char> expected(BytesOfValues(dtype, n)), found(expected), two(expected);
          EncodeValues(dtype, means, expected.data());
          MeanOf(dtype, addends, n, total, found.data());
          EXPECT_EQ(found, expected);
          WriteMean(dtype, sums, total, two.data());
          EXPECT_EQ(two, expected);
        }
      }
    });
  }
}

}  // namespace
}  // namespace tally
