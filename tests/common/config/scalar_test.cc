#include "common/config/scalar.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tally {
namespace {

YamlNode Plain(const std::string& text) {
  YamlNode node;
  node.text = text;
  node.plain = true;
  return node;
}

TEST(Scalar, TypesFollowTheCoreSchema) {
  const struct {
    const char* text;
    ScalarType type;
  } rows[] = {
      {"", ScalarType::kNull},        {"~", ScalarType::kNull},       {"null", ScalarType::kNull},
      {"nULL", ScalarType::kString},  {"true", ScalarType::kBool},    {"FALSE", ScalarType::kBool},
      {"yes", ScalarType::kString},   {"off", ScalarType::kString},   {"0", ScalarType::kInt},
      {"-17", ScalarType::kInt},      {"+3", ScalarType::kInt},       {"0x1F", ScalarType::kInt},
      {"0o17", ScalarType::kInt},     {"0o18", ScalarType::kString},  {"0x", ScalarType::kString},
      {"-0x1", ScalarType::kString},  {"1_000", ScalarType::kString}, {"-", ScalarType::kString},
      {"1.", ScalarType::kFloat},     {".5", ScalarType::kFloat},     {".", ScalarType::kString},
      {"1e5", ScalarType::kFloat},    {"1e", ScalarType::kString},    {"1e+", ScalarType::kString},
      {"-.inf", ScalarType::kFloat},  {".NaN", ScalarType::kFloat},   {"nan", ScalarType::kString},
      {"1.2.3", ScalarType::kString}, {"e5", ScalarType::kString},    {"0b1", ScalarType::kString},
  };
  for (const auto& row : rows) EXPECT_EQ(TypeOf(Plain(row.text)), row.type) << row.text;
}

TEST(Scalar, QuotedIsAString) {
  YamlNode node = Plain("8");
  node.plain = false;
  EXPECT_EQ(AsString(node), "8");
  EXPECT_EQ(AsInt(node), std::nullopt);
}

TEST(Scalar, IntegersAtTheirLimits) {
  EXPECT_EQ(AsInt(Plain("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(AsInt(Plain("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(AsInt(Plain("9223372036854775808")), std::nullopt);
  EXPECT_EQ(AsUint64(Plain("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(AsUint64(Plain("18446744073709551616")), std::nullopt);
  EXPECT_EQ(AsUint64(Plain("-1")), std::nullopt);
  EXPECT_EQ(AsUint64(Plain("0xffffffffffffffff")), UINT64_MAX);
  EXPECT_EQ(AsInt(Plain("+5")), 5);
  EXPECT_EQ(AsInt(Plain("0o17")), 15);
  EXPECT_EQ(AsInt(Plain("8.0")), std::nullopt);
}

TEST(Scalar, Doubles) {
  EXPECT_EQ(AsDouble(Plain("1e-3")), 1e-3);
  EXPECT_EQ(AsDouble(Plain("7")), 7.0);
  EXPECT_EQ(AsDouble(Plain("0x10")), 16.0);
  EXPECT_EQ(AsDouble(Plain("-.inf")), -INFINITY);
  EXPECT_TRUE(std::isnan(*AsDouble(Plain(".nan"))));
  EXPECT_EQ(AsDouble(Plain("1,5")), std::nullopt);
}

TEST(Scalar, DescriptionsAreShortAndCutBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 100; ++i) euros += "€";
  std::string expected;
  for (int i = 0; i < 33; ++i) expected += "€";
  EXPECT_EQ(DescribeFound(Plain(euros)), "the string \"" + expected + "...\"");
}

}  // namespace
}  // namespace tally
