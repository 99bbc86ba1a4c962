// Types of scalars by YAML's core schema (YAML 1.2.2, section 10.3.2). A quoted scalar is a string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/config/yaml_tree.h"

namespace tally {

enum class ScalarType { kNull, kBool, kInt, kFloat, kString };

ScalarType TypeOf(const YamlNode& scalar);

// Each is nullopt when the node is not a scalar of that type or the value does not fit.
std::optional<bool> AsBool(const YamlNode& node);
std::optional<int64_t> AsInt(const YamlNode& node);
std::optional<uint64_t> AsUint64(const YamlNode& node);
// Integers count as numbers. Infinities and NaN come through; text too large for a double does not.
std::optional<double> AsDouble(const YamlNode& node);
// Only what is no null, boolean or number, so that `name: no_1` is a string and `name: 1` is not.
std::optional<std::string> AsString(const YamlNode& node);

// What a node is, for messages: "the integer 8", "the string \"x\"", "nothing", "a mapping".
std::string DescribeFound(const YamlNode& node);

}  // namespace tally
