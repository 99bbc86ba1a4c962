#include "common/base/digest.h"

#include <string>

#include "gtest/gtest.h"

namespace tally {
namespace {

TEST(Digest, KnownValues) {
  EXPECT_EQ(Digest64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(DigestToString(Digest64("")), "2d06800538d394c2");
  EXPECT_EQ(DigestToString(1), "0000000000000001");
}

TEST(Digest, PiecesGiveTheValueOfTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7 + i / 256);
  for (size_t cut = 0; cut <= text.size(); cut += 61) {
    Digester digester;
    digester.Add(text.data(), cut);
    digester.Add(absl::string_view(text).substr(cut));
    EXPECT_EQ(digester.Finish(), Digest64(text)) << cut;
  }
}

TEST(Digest, FinishDoesNotEndTheStream) {
  Digester digester;
  EXPECT_EQ(digester.Finish(), Digest64(""));
  digester.Add("ab");
  EXPECT_EQ(digester.Finish(), Digest64("ab"));
  EXPECT_EQ(digester.Finish(), Digest64("ab"));
}

TEST(Digest, NumbersAreLittleEndian) {
  Digester digester;
  digester.AddUint64(0x0807060504030201u);
  EXPECT_EQ(digester.Finish(), Digest64("\1\2\3\4\5\6\7\10"));
}

TEST(Digest, EveryBitMatters) {
  std::string text(1000, '\0');
  const uint64_t before = Digest64(text);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(1 << (bit % 8));
    EXPECT_NE(Digest64(text), before) << bit;
    text[bit / 8] = 0;
  }
}

}  // namespace
}  // namespace tally
