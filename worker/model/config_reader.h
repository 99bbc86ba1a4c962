// A strict reader of config.json. Reading never stops at a problem; Finish() returns all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "worker/model/pixel_scaling.h"

namespace tally {

// For all readers, no fallback means that the key is required. A problem gives the fallback or the
// lowest value allowed.
class ModelConfig {
 public:
  // INVALID_ARGUMENT if `json` is no JSON object or repeats a key.
  static absl::StatusOr<ModelConfig> Parse(absl::string_view json);

  // True if the key stands in the text. It counts as known only once read.
  bool Has(const std::string& key) const { return json_.contains(key); }
  // An integer in [low, high].
  int64_t Int(const std::string& key, int64_t low, int64_t high,
              std::optional<int64_t> fallback = std::nullopt);
  std::vector<int64_t> Ints(const std::string& key, int64_t low, int64_t high);
  // A finite number above `above`.
  double Double(const std::string& key, double above,
                std::optional<double> fallback = std::nullopt);
  bool Bool(const std::string& key, std::optional<bool> fallback = std::nullopt);
  std::string OneOf(const std::string& key, absl::Span<const std::string> choices,
                    std::optional<std::string> fallback = std::nullopt);
  // image_mean and image_std: one entry each, or one a channel; 0.5 unless given, so that what a
  // model expects never depends on the data at hand.
  PixelScaling Scaling(uint64_t channels);
  // A caller's own check.
  void Error(const std::string& key, absl::string_view message);

  // All problems, one a line as "config.json: KEY: expected ..., found ...". Keys that nobody read
  // are problems, except those that describe (model_type, architectures, torch_dtype,
  // transformers_version, id2label, label2id) and those that begin with an underscore.
  absl::Status Finish() const;

 private:
  explicit ModelConfig(nlohmann::json json) : json_(std::move(json)) {}
  // Null if absent, which is a problem if `required`.
  const nlohmann::json* Read(const std::string& key, absl::string_view expected, bool required);
  void Expected(const std::string& key, absl::string_view expected, const nlohmann::json& found);
  std::vector<float> Channels(const std::string& key, uint64_t channels, double above);

  nlohmann::json json_;
  absl::flat_hash_set<std::string> read_;
  std::vector<std::string> problems_;
};

}  // namespace tally
