// Strict YAML configuration. Reading never stops at a problem: a value that is wrong becomes its
// fallback (or an empty one) and a problem of the document, and Finish() returns all of them at
// once, each as "PATH:LINE: KEY: expected ..., found ...".
//
//   TALLY_ASSIGN_OR_RETURN(ConfigDocument document, ParseYaml(path));
//   ConfigMap root = document.Root();
//   options.name = root.String("name");                             // required
//   options.port = root.Int("port", {0, 65535}, 50051);             // optional
//   options.lease = root.Map("limits").Duration("lease", {}, absl::Seconds(30));
//   TALLY_RETURN_IF_ERROR(document.Finish());                       // unknown keys too
//   spdlog::info("configuration:\n{}", document.Resolved());
//
// A plain scalar has the type that YAML's core schema gives it: `name: 8` is no string, "8" is no
// integer. Repeated keys, tags, several documents and merge keys are refused; aliases are fine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/config/range.h"

namespace tally {

struct ConfigReading;  // what has been read of one mapping; owned by the document
struct ConfigState;
struct YamlNode;

// A mapping of the document being read: a handle, valid while its document lives. For all readers,
// no fallback means that the key is required.
class ConfigMap {
 public:
  // True if the key stands in the text. The key counts as known from then on.
  bool Has(absl::string_view key);

  std::string String(absl::string_view key, std::optional<std::string> fallback = std::nullopt);
  int64_t Int(absl::string_view key, const IntRange& range,
              std::optional<int64_t> fallback = std::nullopt);
  uint64_t Uint64(absl::string_view key, const Uint64Range& range,
                  std::optional<uint64_t> fallback = std::nullopt);
  double Double(absl::string_view key, const DoubleRange& range,
                std::optional<double> fallback = std::nullopt);
  bool Bool(absl::string_view key, std::optional<bool> fallback = std::nullopt);
  // "250ms", "30s", "1h30m", "0".
  absl::Duration Duration(absl::string_view key, const DurationRange& range,
                          std::optional<absl::Duration> fallback = std::nullopt);
  // "64KiB", "256MiB"; a bare number has no unit and is refused.
  uint64_t ByteSize(absl::string_view key, const Uint64Range& range,
                    std::optional<uint64_t> fallback = std::nullopt);
  // "all", which is nothing here, or a number in the range.
  std::optional<uint64_t> AllOr(absl::string_view key, const Uint64Range& range,
                                std::optional<uint64_t> fallback);
  // One of `choices`, which is not empty; a wrong word is answered with the nearest.
  std::string OneOf(absl::string_view key, absl::Span<const std::string> choices,
                    std::optional<std::string> fallback = std::nullopt);

  std::vector<std::string> Strings(
      absl::string_view key, std::optional<std::vector<std::string>> fallback = std::nullopt);
  std::map<std::string, std::string> StringMap(
      absl::string_view key,
      std::optional<std::map<std::string, std::string>> fallback = std::nullopt);

  // A mapping below this one. An absent key reads as an empty mapping: fallbacks hold, and what is
  // required in it is reported as missing. Use Has() for a section that is itself optional.
  ConfigMap Map(absl::string_view key);
  // A sequence of mappings, and a mapping from names to mappings; absent reads as empty.
  std::vector<ConfigMap> Maps(absl::string_view key);
  std::vector<std::pair<std::string, ConfigMap>> NamedMaps(absl::string_view key);

  // The subtree as JSON text with core-schema types, keys in their order. Non-finite numbers are
  // a problem.
  std::string Json(absl::string_view key, std::optional<std::string> fallback = std::nullopt);

  // Reports a caller's own check, at the key's line (the mapping's if absent). `message` reads
  // "expected ..., found ...".
  void ErrorHere(absl::string_view key, absl::string_view message);

 private:
  friend class ConfigDocument;
  ConfigMap(ConfigState* state, ConfigReading* reading) : state_(state), reading_(reading) {}

  // Marks the key as known. Null if absent, which is a problem if `required`.
  const YamlNode* Read(absl::string_view key, absl::string_view expected, bool required);
  template <typename T, typename Parse, typename Print>
  T Value(absl::string_view key, const std::string& expected, const std::optional<T>& fallback,
          Parse parse, Print print);
  std::string ItemString(const YamlNode& item, const std::string& path);
  ConfigMap MapOfNode(const YamlNode* node, std::string path, int line);
  std::string PathOf(absl::string_view key) const;
  int LineOf(absl::string_view key) const;
  // Notes "expected ..., found what the node is" for the key at `path`.
  void Mismatch(const std::string& path, absl::string_view expected, const YamlNode& found);

  ConfigState* state_;
  ConfigReading* reading_;
};

class ConfigDocument {
 public:
  ConfigDocument(ConfigDocument&&) noexcept;
  ConfigDocument& operator=(ConfigDocument&&) noexcept;
  ~ConfigDocument();

  ConfigMap Root();
  // All problems so far and every key that nobody read, by line, one a line; INVALID_ARGUMENT if
  // there is any. Call it after the last read.
  absl::Status Finish() const;
  // What is in effect, fallbacks included, as YAML in the order of reading.
  std::string Resolved() const;
  // "PATH" as given, for messages.
  const std::string& path() const;

 private:
  friend absl::StatusOr<ConfigDocument> ParseYamlText(const std::string& text,
                                                      const std::string& name);
  explicit ConfigDocument(std::unique_ptr<ConfigState> state);
  std::unique_ptr<ConfigState> state_;
};

// NOT_FOUND and the like name the path; for the rest see ParseYamlTree.
absl::StatusOr<ConfigDocument> ParseYaml(const std::string& path);
absl::StatusOr<ConfigDocument> ParseYamlText(const std::string& text, const std::string& name);

}  // namespace tally
