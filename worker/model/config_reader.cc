#include "worker/model/config_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/checkpoint/strict_json.h"

namespace tally {
namespace {

using Json = nlohmann::json;

constexpr float kDefaultMean = 0.5f;  // and deviation, as image processors commonly have it
constexpr absl::string_view kWhere = "config.json";

// Keys that say what a model is without changing it.
constexpr std::array<absl::string_view, 6> kInformative = {
    "model_type", "architectures", "torch_dtype", "transformers_version", "id2label", "label2id"};

bool IsInformative(const std::string& key) {
  return absl::StartsWith(key, "_") ||
         std::find(kInformative.begin(), kInformative.end(), key) != kInformative.end();
}

std::string Shown(const Json& value) {
  // Strings were checked to be UTF-8 by the parser; `replace` keeps dump() from throwing anyway.
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 60), "...");
  return text;
}

bool InRange(const Json& value, int64_t low, int64_t high) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return number >= low && number <= high;
}

bool IsAbove(const Json& value, double above) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > above;
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::Parse(absl::string_view json) {
  auto object = ParseJsonObject(json);
  if (!object.ok()) return WithContext(object.status(), kWhere);
  return ModelConfig(*std::move(object));
}

const Json* ModelConfig::Read(const std::string& key, absl::string_view expected, bool required) {
  read_.insert(key);
  const auto found = json_.find(key);
  if (found != json_.end()) return &*found;
  if (required) Error(key, absl::StrCat("expected ", expected, ", found nothing"));
  return nullptr;
}

void ModelConfig::Expected(const std::string& key, absl::string_view expected, const Json& found) {
  Error(key, absl::StrCat("expected ", expected, ", found ", Shown(found)));
}

void ModelConfig::Error(const std::string& key, absl::string_view message) {
  problems_.push_back(absl::StrCat(kWhere, ": ", key, ": ", message));
}

int64_t ModelConfig::Int(const std::string& key, int64_t low, int64_t high,
                         std::optional<int64_t> fallback) {
  const std::string expected = absl::StrCat("an integer from ", low, " to ", high);
  const Json* value = Read(key, expected, !fallback.has_value());
  if (value != nullptr) {
    if (InRange(*value, low, high)) return value->get<int64_t>();
    Expected(key, expected, *value);
  }
  return fallback.value_or(low);
}

std::vector<int64_t> ModelConfig::Ints(const std::string& key, int64_t low, int64_t high) {
  const std::string expected = absl::StrCat("a list of integers from ", low, " to ", high);
  const Json* value = Read(key, expected, true);
  if (value == nullptr) return {};
  const auto in_range = [&](const Json& item) { return InRange(item, low, high); };
  if (value->is_array() && std::all_of(value->begin(), value->end(), in_range)) {
    return value->get<std::vector<int64_t>>();
  }
  Expected(key, expected, *value);
  return {};
}

double ModelConfig::Double(const std::string& key, double above, std::optional<double> fallback) {
  const std::string expected = absl::StrCat("a number above ", above);
  const Json* value = Read(key, expected, !fallback.has_value());
  if (value != nullptr) {
    if (IsAbove(*value, above)) return value->get<double>();
    Expected(key, expected, *value);
  }
  return fallback.value_or(above);
}

bool ModelConfig::Bool(const std::string& key, std::optional<bool> fallback) {
  const Json* value = Read(key, "true or false", !fallback.has_value());
  if (value != nullptr) {
    if (value->is_boolean()) return value->get<bool>();
    Expected(key, "true or false", *value);
  }
  return fallback.value_or(false);
}

std::string ModelConfig::OneOf(const std::string& key, absl::Span<const std::string> choices,
                               std::optional<std::string> fallback) {
  const std::string expected = absl::StrCat("one of ", absl::StrJoin(choices, ", "));
  const Json* value = Read(key, expected, !fallback.has_value());
  if (value != nullptr) {
    if (value->is_string()) {
      const auto text = value->get<std::string>();
      if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
    }
    Expected(key, expected, *value);
  }
  return fallback.value_or(choices[0]);
}

std::vector<float> ModelConfig::Channels(const std::string& key, uint64_t channels, double above) {
  const std::string expected = absl::StrCat("a list of 1 or ", channels, " numbers");
  const Json* value = Read(key, expected, false);
  if (value == nullptr) return {kDefaultMean};
  const auto allowed = [&](const Json& item) { return IsAbove(item, above); };
  if (value->is_array() && (value->size() == 1 || value->size() == channels) &&
      std::all_of(value->begin(), value->end(), allowed)) {
    return value->get<std::vector<float>>();
  }
  Expected(key, expected, *value);
  return {kDefaultMean};
}

PixelScaling ModelConfig::Scaling(uint64_t channels) {
  return {Channels("image_mean", channels, -std::numeric_limits<double>::infinity()),
          Channels("image_std", channels, 0)};
}

absl::Status ModelConfig::Finish() const {
  std::vector<std::string> all = problems_;
  for (const auto& [key, value] : json_.items()) {
    if (read_.contains(key) || IsInformative(key)) continue;
    all.push_back(absl::StrCat(kWhere, ": ", key, ": unknown key"));
  }
  if (all.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(all, "\n"));
}

}  // namespace tally
