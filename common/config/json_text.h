// YAML subtrees as JSON text.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/yaml_tree.h"

namespace tally {

// With quotes; control characters escaped, UTF-8 left as it is.
std::string JsonQuoted(absl::string_view text);
// The shortest text that reads back as the same finite double, and as a float, not an integer.
std::string JsonFloat(double value);

// Scalars get their core-schema types; keys stay in their order. `key` is the subtree's path, for
// `problems`, which gains each number that JSON cannot hold.
std::string ToJson(const YamlNode& node, const std::string& key,
                   std::vector<ConfigProblem>& problems);

}  // namespace tally
