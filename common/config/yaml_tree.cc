#include "common/config/yaml_tree.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/config/utf8.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/parser.h"

namespace tally {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxExpandedNodes = 1'000'000;
constexpr char kStringTag[] = "tag:yaml.org,2002:str";

int LineOf(const YAML::Mark& mark) { return mark.line + 1; }

// A mapping or sequence whose end has not come yet.
struct OpenNode {
  std::shared_ptr<YamlNode> node;
  YAML::anchor_t anchor = 0;
  absl::flat_hash_map<std::string, int> key_lines;
  std::optional<std::string> key;  // read, its value not yet
  int key_line = 0;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNodePtr root() const { return root_; }
  int documents() const { return documents_; }
  int last_document_line() const { return last_document_line_; }
  std::vector<ConfigProblem> TakeProblems() { return std::move(problems_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++documents_;
    last_document_line_ = LineOf(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != kStringTag) CheckTag(mark, tag);
    AddScalar(mark, value, tag.empty() || tag == "?", anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(YamlKind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(YamlKind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  void AddScalar(const YAML::Mark& mark, const std::string& text, bool plain,
                 YAML::anchor_t anchor);
  void Open(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor);
  void Close();
  void Add(YamlNodePtr node, int line);
  void AddKey(OpenNode& mapping, const YamlNode& node, int line);
  void AddValue(OpenNode& mapping, YamlNodePtr node);
  void CheckTag(const YAML::Mark& mark, const std::string& tag);
  bool Grow(YamlNode& parent, const YamlNode& child, int line);
  std::string Path() const;
  void Problem(int line, std::string message) {
    problems_.push_back({line, Path(), std::move(message)});
  }

  YamlNodePtr root_;
  int documents_ = 0;
  int last_document_line_ = 1;
  bool too_large_ = false;
  std::vector<OpenNode> open_;
  std::unordered_map<YAML::anchor_t, YamlNodePtr> anchors_;
  std::vector<ConfigProblem> problems_;
};

// yaml-cpp puts an absent value where the next token is, often lines below its key.
void TreeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  YAML::Mark at = mark;
  if (!open_.empty() && open_.back().key.has_value()) at.line = open_.back().key_line - 1;
  AddScalar(at, "", true, anchor);
}

void TreeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const auto found = anchors_.find(anchor);
  if (found != anchors_.end()) return Add(found->second, LineOf(mark));
  Problem(LineOf(mark), "expected an alias of something complete, found one of what it stands in");
  Add(std::make_shared<YamlNode>(), LineOf(mark));
}

void TreeBuilder::AddScalar(const YAML::Mark& mark, const std::string& text, bool plain,
                            YAML::anchor_t anchor) {
  auto node = std::make_shared<YamlNode>();
  node->line = LineOf(mark);
  node->text = text;
  node->plain = plain;
  if (anchor != 0) anchors_[anchor] = node;
  Add(std::move(node), LineOf(mark));
}

void TreeBuilder::Open(YamlKind kind, const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor) {
  CheckTag(mark, tag);
  OpenNode open;
  open.node = std::make_shared<YamlNode>();
  open.node->kind = kind;
  open.node->line = LineOf(mark);
  open.anchor = anchor;
  open_.push_back(std::move(open));
}

void TreeBuilder::Close() {
  const OpenNode closed = std::move(open_.back());
  open_.pop_back();
  if (closed.anchor != 0) anchors_[closed.anchor] = closed.node;
  Add(closed.node, closed.node->line);
}

void TreeBuilder::Add(YamlNodePtr node, int line) {
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  OpenNode& parent = open_.back();
  if (!Grow(*parent.node, *node, line)) {
    parent.key.reset();
  } else if (parent.node->kind == YamlKind::kSequence) {
    parent.node->items.push_back(std::move(node));
  } else if (!parent.key.has_value()) {
    AddKey(parent, *node, line);
  } else {
    AddValue(parent, std::move(node));
  }
}

void TreeBuilder::AddKey(OpenNode& mapping, const YamlNode& node, int line) {
  if (node.kind != YamlKind::kScalar || node.text.empty()) {
    Problem(line, node.kind == YamlKind::kScalar ? "expected a key, found nothing"
                                                 : "expected a key, found a collection");
  }
  mapping.key = node.text;
  mapping.key_line = line;
}

void TreeBuilder::AddValue(OpenNode& mapping, YamlNodePtr node) {
  const auto [first, added] = mapping.key_lines.emplace(*mapping.key, mapping.key_line);
  if (added) {
    mapping.node->entries.push_back({*mapping.key, mapping.key_line, std::move(node)});
  } else {
    Problem(mapping.key_line,
            absl::StrCat("expected each key once, found it again (first on line ", first->second,
                         ")"));
  }
  mapping.key.reset();
}

void TreeBuilder::CheckTag(const YAML::Mark& mark, const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return;
  Problem(LineOf(mark), absl::StrCat("expected no tag, found ", tag));
}

// False, once with a problem, when aliases make the document deeper or larger than any
// configuration is.
bool TreeBuilder::Grow(YamlNode& parent, const YamlNode& child, int line) {
  const int depth = std::max(parent.depth, child.depth + 1);
  const size_t nodes = parent.expanded_nodes + child.expanded_nodes;
  if (depth <= kMaxDepth && nodes <= kMaxExpandedNodes) {
    parent.depth = depth;
    parent.expanded_nodes = nodes;
    return true;
  }
  if (!too_large_) {
    Problem(line, absl::StrCat("expected at most ", kMaxDepth, " levels and ", kMaxExpandedNodes,
                               " values, found more"));
  }
  too_large_ = true;
  return false;
}

std::string TreeBuilder::Path() const {
  std::string path;
  for (const OpenNode& open : open_) {
    if (open.node->kind == YamlKind::kSequence) {
      absl::StrAppend(&path, "[", open.node->items.size(), "]");
    } else if (open.key.has_value()) {
      absl::StrAppend(&path, path.empty() ? "" : ".", *open.key);
    }
  }
  return path;
}

absl::Status DocumentError(const std::string& name, int line, absl::string_view message) {
  return absl::InvalidArgumentError(ProblemText(name, {line, "", std::string(message)}));
}

// yaml-cpp's exceptions end here.
absl::Status RunParser(const std::string& text, const std::string& name, TreeBuilder& builder) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
      if (builder.documents() > 1) {
        return DocumentError(name, builder.last_document_line(),
                             "expected one document, found a second one");
      }
    }
    return absl::OkStatus();
  } catch (const YAML::Exception& error) {
    return DocumentError(name, std::max(LineOf(error.mark), 1),
                         absl::StrCat("expected YAML, found a syntax error: ", error.msg));
  } catch (const std::exception& error) {
    return DocumentError(name, 1, absl::StrCat("the YAML parser failed: ", error.what()));
  }
}

// yaml-cpp 0.7 closes an open quote silently at the end of a text that ends with a line break, and
// with it swallows all keys behind the quote. Without the line break it notices.
absl::Status CheckQuotesEnd(absl::string_view text, const std::string& name) {
  TreeBuilder ignored;
  const std::string stripped(absl::StripTrailingAsciiWhitespace(text));
  const absl::Status status = RunParser(stripped, name, ignored);
  const bool open = absl::StrContains(status.message(), YAML::ErrorMsg::EOF_IN_SCALAR);
  return open ? status : absl::OkStatus();
}

}  // namespace

std::string ProblemText(absl::string_view path, const ConfigProblem& problem) {
  const absl::string_view separator = problem.key.empty() ? "" : ": ";
  return absl::StrCat(path, ":", problem.line, ": ", problem.key, separator, problem.message);
}

const YamlEntry* YamlNode::Find(absl::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

absl::StatusOr<YamlTree> ParseYamlTree(const std::string& text, const std::string& name) {
  if (const auto bad = FirstBadText(text)) {
    return DocumentError(name, bad->line, absl::StrCat("expected UTF-8 text, found ", bad->what));
  }
  TreeBuilder builder;
  if (absl::Status status = RunParser(text, name, builder); !status.ok()) return status;
  if (absl::Status status = CheckQuotesEnd(text, name); !status.ok()) return status;
  const YamlNodePtr root = builder.root();
  if (root == nullptr || (root->kind == YamlKind::kScalar && root->plain && root->text.empty())) {
    return DocumentError(name, 1, "expected a mapping, found an empty document");
  }
  if (root->kind != YamlKind::kMapping) {
    return DocumentError(name, root->line,
                         absl::StrCat("expected a mapping, found a ",
                                      root->kind == YamlKind::kScalar ? "scalar" : "sequence"));
  }
  return YamlTree{root, builder.TakeProblems()};
}

}  // namespace tally
