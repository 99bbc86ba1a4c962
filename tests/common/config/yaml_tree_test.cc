#include "common/config/yaml_tree.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// The first problem of a text that has a tree, as it is printed.
std::string FirstProblem(const std::string& text) {
  const auto tree = ParseYamlTree(text, "f");
  if (!tree.ok()) return std::string(tree.status().message());
  return tree->problems.empty() ? "" : ProblemText("f", tree->problems[0]);
}

TEST(YamlTree, LinesOfKeysAndValues) {
  TALLY_ASSERT_OK_AND_ASSIGN(const YamlTree tree, ParseYamlTree("a: 1\n\nb:\n  c: [x, y]\n", "f"));
  EXPECT_EQ(tree.root->Find("a")->line, 1);
  const YamlNodePtr b = tree.root->Find("b")->value;
  EXPECT_EQ(tree.root->Find("b")->line, 3);
  EXPECT_EQ(b->Find("c")->line, 4);
  EXPECT_EQ(b->Find("c")->value->items[1]->text, "y");
  EXPECT_EQ(tree.root->Find("z"), nullptr);
  EXPECT_TRUE(tree.problems.empty());
}

TEST(YamlTree, RepeatedKeyAtAnyDepth) {
  EXPECT_EQ(FirstProblem("a: 1\nb: 2\na: 3\n"),
            "f:3: a: expected each key once, found it again (first on line 1)");
  EXPECT_EQ(FirstProblem("l:\n  - x: 1\n  - y: 1\n    y: 2\n"),
            "f:4: l[1].y: expected each key once, found it again (first on line 3)");
}

TEST(YamlTree, EmptyFile) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "~\n", "---\n...\n"}) {
    EXPECT_THAT(ParseYamlTree(text, "f"),
                StatusIs(kInvalid, "f:1: expected a mapping, found an empty document"))
        << text;
  }
}

TEST(YamlTree, RootIsNoMapping) {
  EXPECT_THAT(ParseYamlTree("- a\n", "f"),
              StatusIs(kInvalid, "f:1: expected a mapping, found a sequence"));
  EXPECT_THAT(ParseYamlTree("\nword\n", "f"),
              StatusIs(kInvalid, "f:2: expected a mapping, found a scalar"));
}

TEST(YamlTree, SeveralDocuments) {
  EXPECT_THAT(ParseYamlTree("a: 1\n---\nb: 2\n", "f"),
              StatusIs(kInvalid, HasSubstr("expected one document, found a second one")));
  TALLY_EXPECT_OK(ParseYamlTree("---\na: 1\n...\n", "f"));
}

TEST(YamlTree, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(ParseYamlTree("a: 1\nb: [1, 2\n", "f"),
              StatusIs(kInvalid, StartsWith("f:3: expected YAML, ")));
  EXPECT_THAT(ParseYamlTree("a: 1\n\tb: 2\n", "f"), StatusIs(kInvalid, StartsWith("f:2: ")));
  EXPECT_THAT(ParseYamlTree("a: *nobody\n", "f"), StatusIs(kInvalid, StartsWith("f:1: ")));
}

TEST(YamlTree, QuoteWithoutEnd) {
  for (const char* text : {"a: 'x", "a: 'x\n", "a: \"x\nb: 1\n\n"}) {
    EXPECT_THAT(ParseYamlTree(text, "f"), StatusIs(kInvalid, HasSubstr("illegal EOF in scalar")))
        << text;
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const YamlTree tree, ParseYamlTree("a: |\n  it's\n", "f"));
  EXPECT_EQ(tree.root->Find("a")->value->text, "it's\n");
}

TEST(YamlTree, BadBytes) {
  EXPECT_THAT(ParseYamlTree("a: 1\nb: \xff\n", "f"),
              StatusIs(kInvalid, "f:2: expected UTF-8 text, found the byte 0xff"));
  EXPECT_THAT(ParseYamlTree("a: \xC0\xAF\n", "f"), StatusIs(kInvalid, HasSubstr("0xc0")));
  EXPECT_THAT(ParseYamlTree("a: \xED\xA0\x80\n", "f"), StatusIs(kInvalid, HasSubstr("0xed")));
  EXPECT_THAT(ParseYamlTree(std::string("a: \0b\n", 6), "f"),
              StatusIs(kInvalid, HasSubstr("a NUL byte")));
}

TEST(YamlTree, ByteOrderMarkAndWindowsLinesAreFine) {
  TALLY_ASSERT_OK_AND_ASSIGN(const YamlTree tree,
                             ParseYamlTree("\xEF\xBB\xBF" "a: x\r\nb: €\r\n", "f"));
  EXPECT_EQ(tree.root->Find("a")->value->text, "x");
  EXPECT_EQ(tree.root->Find("b")->value->text, "€");
  EXPECT_EQ(tree.root->Find("b")->line, 2);
}

TEST(YamlTree, AliasesStandForTheirNode) {
  TALLY_ASSERT_OK_AND_ASSIGN(const YamlTree tree, ParseYamlTree("a: &x {n: 1}\nb: *x\n", "f"));
  EXPECT_EQ(tree.root->Find("a")->value, tree.root->Find("b")->value);
}

TEST(YamlTree, AliasInsideItsOwnNode) {
  EXPECT_THAT(FirstProblem("a: &x [*x]\n"), HasSubstr("expected an alias of something complete"));
}

TEST(YamlTree, AliasesThatMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [*a", i - 1, " , *a", i - 1, " , *a", i - 1, " ]\n");
  }
  EXPECT_THAT(FirstProblem(text), HasSubstr("expected at most 100 levels and 1000000 values"));
}

TEST(YamlTree, AliasesThatDeepen) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 5000; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [*a", i - 1, " ]\n");
  }
  EXPECT_THAT(FirstProblem(text), HasSubstr("expected at most 100 levels"));
}

TEST(YamlTree, BracketsWithoutEnd) {
  EXPECT_THAT(ParseYamlTree(absl::StrCat("a: ", std::string(100000, '[')), "f"),
              StatusIs(kInvalid, StartsWith("f:1: ")));
}

TEST(YamlTree, Tags) {
  EXPECT_THAT(FirstProblem("a: !custom 1\n"), HasSubstr("f:1: a: expected no tag, found !custom"));
  EXPECT_THAT(FirstProblem("a: !!set {x}\n"), HasSubstr("expected no tag"));
  TALLY_ASSERT_OK_AND_ASSIGN(const YamlTree tree, ParseYamlTree("a: !!str 8\n", "f"));
  EXPECT_TRUE(tree.problems.empty());
  EXPECT_FALSE(tree.root->Find("a")->value->plain);
}

TEST(YamlTree, KeysMustBeScalars) {
  EXPECT_THAT(FirstProblem("? [a, b]\n: 1\n"), HasSubstr("expected a key, found a collection"));
  EXPECT_THAT(FirstProblem("? \n: 1\n"), HasSubstr("expected a key, found nothing"));
}

}  // namespace
}  // namespace tally
