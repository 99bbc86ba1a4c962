// YAML text as a tree that remembers the line of everything and refuses what a strict
// configuration may not hold. yaml-cpp's own nodes drop repeated keys; its event parser does not.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tally {

// One problem of a document. `key` is its path ("limits.workers[2].name"), empty for the document.
struct ConfigProblem {
  int line = 1;
  std::string key;
  std::string message;
};

// "PATH:LINE: KEY: MESSAGE".
std::string ProblemText(absl::string_view path, const ConfigProblem& problem);

enum class YamlKind { kScalar, kSequence, kMapping };

struct YamlNode;
using YamlNodePtr = std::shared_ptr<const YamlNode>;  // shared where the text uses an alias

struct YamlEntry {
  std::string key;
  int line = 1;  // of the key
  YamlNodePtr value;
};

struct YamlNode {
  YamlKind kind = YamlKind::kScalar;
  int line = 1;
  std::string text;                // scalar
  bool plain = false;              // scalar without quotes: its text decides its type
  std::vector<YamlNodePtr> items;  // sequence
  std::vector<YamlEntry> entries;  // mapping: the first of each key, in order
  // Guards against texts that grow without bound through aliases.
  int depth = 1;
  size_t expanded_nodes = 1;

  // Null when absent.
  const YamlEntry* Find(absl::string_view key) const;
};

struct YamlTree {
  YamlNodePtr root;  // a mapping
  // Repeated keys, unknown tags, keys that are not scalars.
  std::vector<ConfigProblem> problems;
};

// `name` stands for the file in messages. INVALID_ARGUMENT when there is no tree to speak of: bad
// UTF-8, bad syntax, an empty document, several documents, a root that is not a mapping.
absl::StatusOr<YamlTree> ParseYamlTree(const std::string& text, const std::string& name);

}  // namespace tally
