#include "common/config/scalar.h"

#include <charconv>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/json_text.h"

namespace tally {
namespace {

bool IsNullText(absl::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

bool IsTrueText(absl::string_view text) {
  return text == "true" || text == "True" || text == "TRUE";
}

bool IsFalseText(absl::string_view text) {
  return text == "false" || text == "False" || text == "FALSE";
}

size_t SkipDigits(absl::string_view text, size_t at) {
  while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
  return at;
}

bool StartsWithSign(absl::string_view text) {
  return !text.empty() && (text[0] == '+' || text[0] == '-');
}

// Base 8 or 16 when written with a prefix (0o17, 0xff), 10 for [-+]?[0-9]+, 0 if no integer.
int IntBase(absl::string_view text) {
  const bool hex = absl::StartsWith(text, "0x");
  if (hex || absl::StartsWith(text, "0o")) {
    const absl::string_view digits = text.substr(2);
    const absl::string_view allowed = hex ? "0123456789abcdefABCDEF" : "01234567";
    const bool good = !digits.empty() && digits.find_first_not_of(allowed) == digits.npos;
    return good ? (hex ? 16 : 8) : 0;
  }
  const size_t first = StartsWithSign(text) ? 1 : 0;
  return first < text.size() && SkipDigits(text, first) == text.size() ? 10 : 0;
}

bool IsInfinityText(absl::string_view text) {
  if (StartsWithSign(text)) text.remove_prefix(1);
  return text == ".inf" || text == ".Inf" || text == ".INF";
}

bool IsNanText(absl::string_view text) {
  return text == ".nan" || text == ".NaN" || text == ".NAN";
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool IsDecimalText(absl::string_view text) {
  if (StartsWithSign(text)) text.remove_prefix(1);
  const size_t whole = SkipDigits(text, 0);
  size_t at = whole;
  if (at < text.size() && text[at] == '.') {
    const size_t fraction = SkipDigits(text, at + 1);
    if (whole == 0 && fraction == at + 1) return false;
    at = fraction;
  } else if (whole == 0) {
    return false;
  }
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  const size_t exponent = at + 1 + (StartsWithSign(text.substr(at + 1)) ? 1 : 0);
  return exponent < text.size() && SkipDigits(text, exponent) == text.size();
}

// The first 100 bytes or so, cut between characters.
std::string Shortened(const std::string& text) {
  constexpr size_t kMost = 100;
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

template <typename T>
std::optional<T> ParseInteger(const YamlNode& node) {
  if (node.kind != YamlKind::kScalar || TypeOf(node) != ScalarType::kInt) return std::nullopt;
  const int base = IntBase(node.text);
  absl::string_view digits = node.text;
  if (base != 10) digits.remove_prefix(2);
  if (absl::StartsWith(digits, "+")) digits.remove_prefix(1);
  T value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, base);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

ScalarType TypeOf(const YamlNode& scalar) {
  if (!scalar.plain) return ScalarType::kString;
  const absl::string_view text = scalar.text;
  if (IsNullText(text)) return ScalarType::kNull;
  if (IsTrueText(text) || IsFalseText(text)) return ScalarType::kBool;
  if (IntBase(text) != 0) return ScalarType::kInt;
  if (IsDecimalText(text) || IsInfinityText(text) || IsNanText(text)) return ScalarType::kFloat;
  return ScalarType::kString;
}

std::optional<bool> AsBool(const YamlNode& node) {
  if (node.kind != YamlKind::kScalar || TypeOf(node) != ScalarType::kBool) return std::nullopt;
  return IsTrueText(node.text);
}

std::optional<int64_t> AsInt(const YamlNode& node) { return ParseInteger<int64_t>(node); }

std::optional<uint64_t> AsUint64(const YamlNode& node) { return ParseInteger<uint64_t>(node); }

std::optional<double> AsDouble(const YamlNode& node) {
  if (node.kind != YamlKind::kScalar) return std::nullopt;
  const ScalarType type = TypeOf(node);
  if (type == ScalarType::kInt && IntBase(node.text) != 10) {
    const auto value = AsUint64(node);
    return value.has_value() ? std::optional<double>(*value) : std::nullopt;
  }
  if (type != ScalarType::kInt && type != ScalarType::kFloat) return std::nullopt;
  if (IsNanText(node.text)) return std::numeric_limits<double>::quiet_NaN();
  if (IsInfinityText(node.text)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return node.text[0] == '-' ? -infinity : infinity;
  }
  double value = 0;
  if (!absl::SimpleAtod(node.text, &value)) return std::nullopt;
  return value;
}

std::optional<std::string> AsString(const YamlNode& node) {
  if (node.kind != YamlKind::kScalar || TypeOf(node) != ScalarType::kString) return std::nullopt;
  return node.text;
}

std::string DescribeFound(const YamlNode& node) {
  const std::string text = Shortened(node.text);
  if (node.kind == YamlKind::kSequence) return "a sequence";
  if (node.kind == YamlKind::kMapping) return "a mapping";
  switch (TypeOf(node)) {
    case ScalarType::kNull:
      return "nothing";
    case ScalarType::kBool:
      return absl::StrCat("the boolean ", text);
    case ScalarType::kInt:
      return absl::StrCat("the integer ", text);
    case ScalarType::kFloat:
      return absl::StrCat("the number ", text);
    case ScalarType::kString:
      break;
  }
  return absl::StrCat("the string ", JsonQuoted(text));
}

}  // namespace tally
