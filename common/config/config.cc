#include "common/config/config.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/config/byte_size.h"
#include "common/config/json_text.h"
#include "common/config/reading.h"
#include "common/config/scalar.h"
#include "common/config/suggest.h"

namespace tally {
namespace {

constexpr char kString[] = "a string";
constexpr char kMapping[] = "a mapping";
constexpr char kAll[] = "all";

template <typename T, typename Range>
std::optional<T> Within(const Range& range, std::optional<T> value) {
  return value.has_value() && Contains(range, *value) ? value : std::nullopt;
}

std::optional<absl::Duration> AsDuration(const YamlNode& node) {
  absl::Duration value;
  if (node.kind != YamlKind::kScalar || !absl::ParseDuration(node.text, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<uint64_t> AsByteSize(const YamlNode& node) {
  return node.kind == YamlKind::kScalar ? ParseByteSize(node.text) : std::nullopt;
}

std::string YamlStrings(const std::vector<std::string>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", ", [](std::string* out, const auto& value) {
                        absl::StrAppend(out, YamlString(value));
                      }),
                      "]");
}

std::string YamlStringMap(const std::map<std::string, std::string>& values) {
  return absl::StrCat("{", absl::StrJoin(values, ", ", [](std::string* out, const auto& value) {
                        absl::StrAppend(out, YamlString(value.first), ": ",
                                        YamlString(value.second));
                      }),
                      "}");
}

template <typename T>
std::string Print(const T& value) {
  return absl::StrCat(value);
}

// A value that is neither a string nor nothing could be meant as one.
std::string QuoteHint(absl::string_view expected, const YamlNode& found) {
  const bool could_quote = expected == kString && found.kind == YamlKind::kScalar &&
                           TypeOf(found) != ScalarType::kNull;
  return could_quote ? "; write it in quotes to make it a string" : "";
}

}  // namespace

bool ConfigMap::Has(absl::string_view key) {
  reading_->Know(key);
  return reading_->node != nullptr && reading_->node->Find(key) != nullptr;
}

std::string ConfigMap::PathOf(absl::string_view key) const {
  return absl::StrCat(reading_->path, reading_->path.empty() ? "" : ".", key);
}

int ConfigMap::LineOf(absl::string_view key) const {
  const YamlEntry* entry = reading_->node == nullptr ? nullptr : reading_->node->Find(key);
  return entry == nullptr ? reading_->line : entry->line;
}

void ConfigMap::Mismatch(const std::string& path, absl::string_view expected,
                         const YamlNode& found) {
  state_->problems.push_back({found.line, path,
                              absl::StrCat("expected ", expected, ", found ",
                                           DescribeFound(found), QuoteHint(expected, found))});
}

void ConfigMap::ErrorHere(absl::string_view key, absl::string_view message) {
  state_->problems.push_back({LineOf(key), PathOf(key), std::string(message)});
}

const YamlNode* ConfigMap::Read(absl::string_view key, absl::string_view expected,
                                bool required) {
  if (Has(key)) return reading_->node->Find(key)->value.get();
  if (required && !reading_->broken) {
    ErrorHere(key, absl::StrCat("expected ", expected, ", found no such key"));
  }
  return nullptr;
}

template <typename T, typename Parse, typename Print>
T ConfigMap::Value(absl::string_view key, const std::string& expected,
                   const std::optional<T>& fallback, Parse parse, Print print) {
  std::optional<T> value = fallback;
  if (const YamlNode* node = Read(key, expected, !fallback.has_value())) {
    if (std::optional<T> parsed = parse(*node)) {
      value = std::move(parsed);
    } else {
      Mismatch(PathOf(key), expected, *node);
    }
  }
  if (value.has_value()) reading_->effects[std::string(key)] = print(*value);
  return value.value_or(T());
}

std::string ConfigMap::String(absl::string_view key, std::optional<std::string> fallback) {
  return Value(key, kString, fallback, AsString, YamlString);
}

int64_t ConfigMap::Int(absl::string_view key, const IntRange& range,
                       std::optional<int64_t> fallback) {
  return Value(
      key, Describe(range), fallback,
      [&](const YamlNode& node) { return Within(range, AsInt(node)); }, Print<int64_t>);
}

uint64_t ConfigMap::Uint64(absl::string_view key, const Uint64Range& range,
                           std::optional<uint64_t> fallback) {
  return Value(
      key, Describe(range), fallback,
      [&](const YamlNode& node) { return Within(range, AsUint64(node)); }, Print<uint64_t>);
}

double ConfigMap::Double(absl::string_view key, const DoubleRange& range,
                         std::optional<double> fallback) {
  return Value(
      key, Describe(range), fallback,
      [&](const YamlNode& node) { return Within(range, AsDouble(node)); }, JsonFloat);
}

bool ConfigMap::Bool(absl::string_view key, std::optional<bool> fallback) {
  return Value(key, "true or false", fallback, AsBool,
               [](bool value) { return std::string(value ? "true" : "false"); });
}

absl::Duration ConfigMap::Duration(absl::string_view key, const DurationRange& range,
                                   std::optional<absl::Duration> fallback) {
  return Value(
      key, Describe(range), fallback,
      [&](const YamlNode& node) { return Within(range, AsDuration(node)); },
      [](absl::Duration value) { return absl::FormatDuration(value); });
}

uint64_t ConfigMap::ByteSize(absl::string_view key, const Uint64Range& range,
                             std::optional<uint64_t> fallback) {
  const std::string expected = absl::StrCat("a size such as 64KiB, 256MiB or 1GiB from ",
                                            ByteSizeText(range.low), " to ",
                                            ByteSizeText(range.high));
  return Value(
      key, expected, fallback,
      [&](const YamlNode& node) { return Within(range, AsByteSize(node)); }, ByteSizeText);
}

std::optional<uint64_t> ConfigMap::AllOr(absl::string_view key, const Uint64Range& range,
                                         std::optional<uint64_t> fallback) {
  using Count = std::optional<uint64_t>;
  const auto parse = [&](const YamlNode& node) -> std::optional<Count> {
    if (node.kind == YamlKind::kScalar && node.text == kAll) return Count();
    const Count count = Within(range, AsUint64(node));
    return count.has_value() ? std::optional<Count>(count) : std::nullopt;
  };
  return Value(key, absl::StrCat(kAll, " or ", Describe(range)), std::optional<Count>(fallback),
               parse, [](const Count& count) { return count ? absl::StrCat(*count) : kAll; });
}

std::string ConfigMap::OneOf(absl::string_view key, absl::Span<const std::string> choices,
                             std::optional<std::string> fallback) {
  const std::string expected = absl::StrCat("one of ", absl::StrJoin(choices, ", "));
  std::optional<std::string> value = fallback;
  if (const YamlNode* node = Read(key, expected, !fallback.has_value())) {
    const bool scalar = node->kind == YamlKind::kScalar;
    if (scalar && std::find(choices.begin(), choices.end(), node->text) != choices.end()) {
      value = node->text;
    } else {
      ErrorHere(key, absl::StrCat("expected ", expected, "; found ", DescribeFound(*node),
                                  scalar ? DidYouMean(node->text, choices) : ""));
    }
  }
  if (value.has_value()) reading_->effects[std::string(key)] = YamlString(*value);
  return value.value_or("");
}

std::string ConfigMap::ItemString(const YamlNode& item, const std::string& path) {
  std::optional<std::string> value = AsString(item);
  if (!value.has_value()) Mismatch(path, kString, item);
  return value.value_or("");
}

std::vector<std::string> ConfigMap::Strings(absl::string_view key,
                                            std::optional<std::vector<std::string>> fallback) {
  using Items = std::vector<std::string>;
  const auto parse = [&](const YamlNode& node) -> std::optional<Items> {
    if (node.kind != YamlKind::kSequence) return std::nullopt;
    Items values;
    for (const YamlNodePtr& item : node.items) {
      values.push_back(ItemString(*item, absl::StrCat(PathOf(key), "[", values.size(), "]")));
    }
    return values;
  };
  return Value(key, "a sequence of strings", fallback, parse, YamlStrings);
}

std::map<std::string, std::string> ConfigMap::StringMap(
    absl::string_view key, std::optional<std::map<std::string, std::string>> fallback) {
  using Items = std::map<std::string, std::string>;
  const auto parse = [&](const YamlNode& node) -> std::optional<Items> {
    if (node.kind != YamlKind::kMapping) return std::nullopt;
    Items values;
    for (const YamlEntry& entry : node.entries) {
      values[entry.key] = ItemString(*entry.value, absl::StrCat(PathOf(key), ".", entry.key));
    }
    return values;
  };
  return Value(key, "a mapping from names to strings", fallback, parse, YamlStringMap);
}

ConfigMap ConfigMap::MapOfNode(const YamlNode* node, std::string path, int line) {
  ConfigReading& reading = state_->readings.emplace_back();
  reading.path = std::move(path);
  reading.line = line;
  reading.broken = reading_->broken;
  if (node != nullptr && node->kind == YamlKind::kMapping) {
    reading.node = node;
  } else if (node != nullptr) {
    Mismatch(reading.path, kMapping, *node);
    reading.broken = true;
  }
  return ConfigMap(state_, &reading);
}

ConfigMap ConfigMap::Map(absl::string_view key) {
  const auto known = reading_->effects.find(key);
  if (known != reading_->effects.end()) {
    if (auto* reading = std::get_if<ConfigReading*>(&known->second)) {
      return ConfigMap(state_, *reading);
    }
  }
  const ConfigMap map = MapOfNode(Read(key, kMapping, false), PathOf(key), LineOf(key));
  reading_->effects[std::string(key)] = map.reading_;
  return map;
}

std::vector<ConfigMap> ConfigMap::Maps(absl::string_view key) {
  std::vector<ConfigMap> maps;
  std::vector<ConfigReading*> readings;
  const YamlNode* node = Read(key, "a sequence of mappings", false);
  if (node != nullptr && node->kind != YamlKind::kSequence) {
    Mismatch(PathOf(key), "a sequence of mappings", *node);
  } else if (node != nullptr) {
    for (const YamlNodePtr& item : node->items) {
      const std::string path = absl::StrCat(PathOf(key), "[", maps.size(), "]");
      maps.push_back(MapOfNode(item.get(), path, item->line));
      readings.push_back(maps.back().reading_);
    }
  }
  reading_->effects[std::string(key)] = std::move(readings);
  return maps;
}

std::vector<std::pair<std::string, ConfigMap>> ConfigMap::NamedMaps(absl::string_view key) {
  ConfigMap names = Map(key);
  std::vector<std::pair<std::string, ConfigMap>> maps;
  if (names.reading_->node == nullptr) return maps;
  for (const YamlEntry& entry : names.reading_->node->entries) {
    maps.emplace_back(entry.key, names.Map(entry.key));
  }
  return maps;
}

std::string ConfigMap::Json(absl::string_view key, std::optional<std::string> fallback) {
  const auto parse = [&](const YamlNode& node) -> std::optional<std::string> {
    return ToJson(node, PathOf(key), state_->problems);
  };
  return Value(key, "a value", fallback, parse, [](const std::string& json) { return json; });
}

ConfigDocument::ConfigDocument(std::unique_ptr<ConfigState> state) : state_(std::move(state)) {}
ConfigDocument::ConfigDocument(ConfigDocument&&) noexcept = default;
ConfigDocument& ConfigDocument::operator=(ConfigDocument&&) noexcept = default;
ConfigDocument::~ConfigDocument() = default;

ConfigMap ConfigDocument::Root() { return ConfigMap(state_.get(), &state_->readings.front()); }

absl::Status ConfigDocument::Finish() const {
  std::vector<ConfigProblem> problems = state_->tree.problems;
  const std::vector<ConfigProblem> unknown = UnknownKeys(*state_);
  problems.insert(problems.end(), state_->problems.begin(), state_->problems.end());
  problems.insert(problems.end(), unknown.begin(), unknown.end());
  if (problems.empty()) return absl::OkStatus();
  std::stable_sort(problems.begin(), problems.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  std::vector<std::string> lines;
  for (const ConfigProblem& problem : problems) {
    std::string line = ProblemText(state_->path, problem);
    const bool repeated = std::find(lines.begin(), lines.end(), line) != lines.end();
    if (!repeated) lines.push_back(std::move(line));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

std::string ConfigDocument::Resolved() const { return ResolvedYaml(state_->readings.front()); }

const std::string& ConfigDocument::path() const { return state_->path; }

absl::StatusOr<ConfigDocument> ParseYamlText(const std::string& text, const std::string& name) {
  auto state = std::make_unique<ConfigState>();
  state->path = name;
  TALLY_ASSIGN_OR_RETURN(state->tree, ParseYamlTree(text, name));
  ConfigReading& root = state->readings.emplace_back();
  root.node = state->tree.root.get();
  return ConfigDocument(std::move(state));
}

absl::StatusOr<ConfigDocument> ParseYaml(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a folder"));
  }
  TALLY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseYamlText(text, path);
}

}  // namespace tally
