// What has been read of a document: known keys, for finding unknown ones, and the values in effect.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/config/yaml_tree.h"

namespace tally {

struct ConfigReading;

// A value in effect: inline YAML text, a mapping, or a sequence of mappings.
using ConfigEffect = std::variant<std::string, ConfigReading*, std::vector<ConfigReading*>>;

// What has been read of one mapping.
struct ConfigReading {
  const YamlNode* node = nullptr;  // null when the text has no such mapping
  std::string path;                // key path, empty for the root
  int line = 1;
  bool broken = false;  // stands for a value of the wrong kind: nothing in it is missing
  std::vector<std::string> known;  // keys asked for, in order of asking
  std::map<std::string, ConfigEffect, std::less<>> effects;

  void Know(absl::string_view key);
};

struct ConfigState {
  std::string path;  // of the file
  YamlTree tree;
  std::deque<ConfigReading> readings;  // pointers stay valid; the first is the root
  std::vector<ConfigProblem> problems;
};

// A problem for each key of the text that no reader asked for.
std::vector<ConfigProblem> UnknownKeys(const ConfigState& state);

// Block-style YAML of a reading's effects, in order of asking.
std::string ResolvedYaml(const ConfigReading& reading);
// A string as inline YAML: plain where that is unmistakable, else quoted.
std::string YamlString(absl::string_view text);

}  // namespace tally
