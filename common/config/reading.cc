#include "common/config/reading.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/json_text.h"
#include "common/config/scalar.h"
#include "common/config/suggest.h"

namespace tally {
namespace {

ConfigProblem UnknownKey(const ConfigReading& reading, const YamlEntry& entry) {
  std::string help = DidYouMean(entry.key, reading.known);
  if (help.empty() && !reading.known.empty()) {
    help = absl::StrCat("; known here: ", absl::StrJoin(reading.known, ", "));
  }
  return {entry.line, absl::StrCat(reading.path, reading.path.empty() ? "" : ".", entry.key),
          absl::StrCat("expected a known key, found ", entry.key, help)};
}

bool IsPlainSafe(absl::string_view text) {
  if (text.empty() || text.front() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '/' || c == '.';
  });
}

class YamlPrinter {
 public:
  void Mapping(const ConfigReading& reading, int indent) {
    for (const std::string& key : reading.known) {
      const auto effect = reading.effects.find(key);
      if (effect == reading.effects.end()) continue;
      absl::StrAppend(&out_, std::string(indent, ' '), YamlString(key), ":");
      std::visit([&](const auto& value) { Value(value, indent + 2); }, effect->second);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  void Value(const std::string& text, int) { absl::StrAppend(&out_, " ", text, "\n"); }

  void Value(const ConfigReading* reading, int indent) {
    if (reading->effects.empty()) {
      out_ += " {}\n";
      return;
    }
    out_ += "\n";
    Mapping(*reading, indent);
  }

  void Value(const std::vector<ConfigReading*>& items, int indent) {
    out_ += items.empty() ? " []\n" : "\n";
    for (const ConfigReading* item : items) {
      absl::StrAppend(&out_, std::string(indent, ' '), "-");
      Value(item, indent + 2);
    }
  }

  std::string out_;
};

}  // namespace

void ConfigReading::Know(absl::string_view key) {
  if (std::find(known.begin(), known.end(), key) == known.end()) known.emplace_back(key);
}

std::vector<ConfigProblem> UnknownKeys(const ConfigState& state) {
  std::vector<ConfigProblem> problems;
  for (const ConfigReading& reading : state.readings) {
    if (reading.node == nullptr) continue;
    for (const YamlEntry& entry : reading.node->entries) {
      const auto& known = reading.known;
      if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
        problems.push_back(UnknownKey(reading, entry));
      }
    }
  }
  return problems;
}

std::string ResolvedYaml(const ConfigReading& reading) {
  YamlPrinter printer;
  printer.Mapping(reading, 0);
  return printer.Take();
}

std::string YamlString(absl::string_view text) {
  YamlNode node;
  node.plain = true;
  node.text = std::string(text);
  const bool plain = IsPlainSafe(text) && TypeOf(node) == ScalarType::kString;
  return plain ? node.text : JsonQuoted(text);
}

}  // namespace tally
