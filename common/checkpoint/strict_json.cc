#include "common/checkpoint/strict_json.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace tally {
namespace {

using nlohmann::json;

// Watches the parser's events for what the finished value no longer shows.
class KeyWatch {
 public:
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    constexpr int kMaxDepth = 64;
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) NoteKey(parsed.get_ref<const std::string&>());
    if (depth > kMaxDepth && problem_.empty()) {
      problem_ = absl::StrCat("expected at most ", kMaxDepth, " levels, found more");
    }
    return depth <= kMaxDepth;
  }
  const std::string& problem() const { return problem_; }

 private:
  void NoteKey(const std::string& key) {
    if (!keys_.back().insert(key).second && problem_.empty()) {
      problem_ = absl::StrCat("expected each key once, found ", json(key).dump(), " again");
    }
  }

  std::vector<absl::flat_hash_set<std::string>> keys_;  // of the objects that are open
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text) {
  // The parser takes a NUL for the end of the text.
  if (text.find('\0') != text.npos) {
    return absl::InvalidArgumentError("expected JSON text, found a NUL byte");
  }
  KeyWatch watch;
  try {
    json value = json::parse(text.begin(), text.end(), [&watch](int depth, auto event, json& parsed) {
      return watch(depth, event, parsed);
    });
    if (!watch.problem().empty()) return absl::InvalidArgumentError(watch.problem());
    if (value.is_object()) return value;
    return absl::InvalidArgumentError(
        absl::StrCat("expected a JSON object, found ", value.type_name()));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("expected JSON, found: ", error.what()));
  }
}

absl::StatusOr<std::string> JsonString(absl::string_view text) {
  try {
    return json(std::string(text)).dump();
  } catch (const json::exception&) {
    return absl::InvalidArgumentError("expected UTF-8 text, found other bytes");
  }
}

}  // namespace tally
