#include "common/config/json_text.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/scalar.h"

namespace tally {
namespace {

std::string EscapedByte(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return absl::StrFormat("\\u%04x", static_cast<unsigned char>(c));
  }
}

class JsonWriter {
 public:
  explicit JsonWriter(std::vector<ConfigProblem>& problems) : problems_(problems) {}

  void Write(const YamlNode& node, const std::string& key) {
    switch (node.kind) {
      case YamlKind::kScalar:
        return WriteScalar(node, key);
      case YamlKind::kSequence:
        return WriteSequence(node, key);
      case YamlKind::kMapping:
        return WriteMapping(node, key);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  void WriteScalar(const YamlNode& node, const std::string& key) {
    switch (TypeOf(node)) {
      case ScalarType::kNull:
        out_ += "null";
        return;
      case ScalarType::kBool:
        out_ += *AsBool(node) ? "true" : "false";
        return;
      case ScalarType::kInt:
        return WriteInt(node, key);
      case ScalarType::kFloat:
        return WriteFloat(node, key);
      case ScalarType::kString:
        out_ += JsonQuoted(node.text);
    }
  }

  void WriteInt(const YamlNode& node, const std::string& key) {
    if (const auto value = AsInt(node)) {
      absl::StrAppend(&out_, *value);
    } else if (const auto large = AsUint64(node)) {
      absl::StrAppend(&out_, *large);
    } else {
      Problem(node, key, "an integer of at most 64 bits");
    }
  }

  void WriteFloat(const YamlNode& node, const std::string& key) {
    const auto value = AsDouble(node);
    if (value.has_value() && std::isfinite(*value)) {
      out_ += JsonFloat(*value);
    } else {
      Problem(node, key, "a finite number");
    }
  }

  void WriteSequence(const YamlNode& node, const std::string& key) {
    out_ += '[';
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) out_ += ',';
      Write(*node.items[i], absl::StrCat(key, "[", i, "]"));
    }
    out_ += ']';
  }

  void WriteMapping(const YamlNode& node, const std::string& key) {
    out_ += '{';
    for (const YamlEntry& entry : node.entries) {
      if (&entry != &node.entries.front()) out_ += ',';
      absl::StrAppend(&out_, JsonQuoted(entry.key), ":");
      Write(*entry.value, absl::StrCat(key, ".", entry.key));
    }
    out_ += '}';
  }

  void Problem(const YamlNode& node, const std::string& key, absl::string_view expected) {
    out_ += "null";  // keeps the text well-formed; the problem makes the document fail
    problems_.push_back(
        {node.line, key, absl::StrCat("expected ", expected, ", found ", node.text)});
  }

  std::vector<ConfigProblem>& problems_;
  std::string out_;
};

}  // namespace

std::string JsonQuoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool escape = c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (escape) {
      out += EscapedByte(c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string JsonFloat(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string ToJson(const YamlNode& node, const std::string& key,
                   std::vector<ConfigProblem>& problems) {
  JsonWriter writer(problems);
  writer.Write(node, key);
  return writer.Take();
}

}  // namespace tally
