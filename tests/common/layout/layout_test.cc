#include "common/layout/layout.h"

#include <set>
#include <string>
#include <vector>

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

LayoutBuilder TwoBlocks() {
  LayoutBuilder builder;
  builder.AddBlock("embeddings").AddTensor("embed.weight", {10, 4});
  builder.AddBlock("head").AddTensor("head.weight", {3, 4}).AddTensor("head.bias", {3});
  return builder;
}

Layout Built(const LayoutBuilder& builder) {
  auto layout = builder.Build();
  EXPECT_THAT(layout, testing::IsOk());
  return *std::move(layout);
}

TEST(LayoutTest, TensorsFollowOneAnother) {
  const Layout layout = Built(TwoBlocks());
  ASSERT_EQ(layout.tensors().size(), 3u);
  EXPECT_EQ(layout.tensors()[1].first, 40u);
  EXPECT_EQ(layout.tensors()[1].count, 12u);
  EXPECT_EQ(layout.tensors()[1].block, 1u);
  EXPECT_EQ(layout.tensors()[2].first, 52u);
  EXPECT_EQ(layout.blocks()[1].first, 40u);
  EXPECT_EQ(layout.blocks()[1].count, 15u);
  EXPECT_EQ(layout.size(), 55u);
}

TEST(LayoutTest, ScalarHasOneElement) {
  LayoutBuilder builder;
  builder.AddBlock("b").AddTensor("scale", {});
  EXPECT_EQ(Built(builder).size(), 1u);
}

TEST(LayoutTest, WithoutBuffersEverythingIsTrained) {
  const Layout layout = Built(TwoBlocks());
  EXPECT_FALSE(layout.has_buffers());
  EXPECT_EQ(layout.trained_blocks(), 2u);
  EXPECT_EQ(layout.trained_size(), layout.size());
}

TEST(LayoutTest, BuffersBlockIsNotTrained) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddBuffersBlock("buffers").AddTensor("bn.running_mean", {7});
  const Layout layout = Built(builder);
  EXPECT_TRUE(layout.has_buffers());
  EXPECT_EQ(layout.blocks().size(), 3u);
  EXPECT_EQ(layout.trained_blocks(), 2u);
  EXPECT_EQ(layout.size(), 62u);
  EXPECT_EQ(layout.trained_size(), 55u);
}

TEST(LayoutTest, ProtoAndBack) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddBuffersBlock("buffers").AddTensor("bn.running_mean", {7});
  const Layout layout = Built(builder);
  auto back = Layout::FromProto(layout.ToProto());
  TALLY_ASSERT_OK(back);
  EXPECT_EQ(back->digest(), layout.digest());
  EXPECT_EQ(back->ToProto().SerializeAsString(), layout.ToProto().SerializeAsString());
  EXPECT_EQ(back->tensors()[0].shape, (std::vector<uint64_t>{10, 4}));
}

TEST(LayoutTest, EqualLayoutsHaveEqualDigests) {
  EXPECT_EQ(Built(TwoBlocks()).digest(), Built(TwoBlocks()).digest());
}

// Each differs from {a: x [2,3], y [6]} in one respect.
TEST(LayoutTest, DigestChangesWithOrderNameShapeAndBlock) {
  std::vector<LayoutBuilder> variants(9);
  variants[0].AddBlock("a").AddTensor("x", {2, 3}).AddTensor("y", {6});
  variants[1].AddBlock("a").AddTensor("y", {6}).AddTensor("x", {2, 3});
  variants[2].AddBlock("a").AddTensor("z", {2, 3}).AddTensor("y", {6});
  variants[3].AddBlock("a").AddTensor("x", {3, 2}).AddTensor("y", {6});
  variants[4].AddBlock("a").AddTensor("x", {6}).AddTensor("y", {6});
  variants[5].AddBlock("a").AddTensor("x", {2, 3}).AddBlock("b").AddTensor("y", {6});
  variants[6].AddBlock("a").AddTensor("x", {2, 3}).AddBuffersBlock("b").AddTensor("y", {6});
  variants[7].AddBlock("c").AddTensor("x", {2, 3}).AddTensor("y", {6});
  variants[8].AddBlock("a").AddTensor("x", {1, 2, 3}).AddTensor("y", {6});
  std::set<uint64_t> digests;
  for (const LayoutBuilder& variant : variants) digests.insert(Built(variant).digest());
  EXPECT_EQ(digests.size(), variants.size());
}

// Lengths are digested beside names: moving a letter across a bound is another layout.
TEST(LayoutTest, DigestSeparatesNames) {
  LayoutBuilder one, other;
  one.AddBlock("a").AddTensor("xy", {1}).AddTensor("z", {1});
  other.AddBlock("a").AddTensor("x", {1}).AddTensor("yz", {1});
  EXPECT_NE(Built(one).digest(), Built(other).digest());
}

TEST(LayoutTest, RepeatedTensorNameIsRefusedByName) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddTensor("head.bias", {3});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("head.bias")));
}

TEST(LayoutTest, EmptyTensorNameIsRefused) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddTensor("", {3});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("tensor 3")));
}

TEST(LayoutTest, RepeatedBlockNameIsRefusedByName) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddBlock("embeddings").AddTensor("other", {3});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("embeddings")));
}

TEST(LayoutTest, EmptyBlockNameIsRefused) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddBlock("").AddTensor("other", {3});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("block 2")));
}

TEST(LayoutTest, BlockWithoutTensorsIsRefusedByName) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddBlock("hollow");
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("hollow")));
}

TEST(LayoutTest, BlockOfMoreTensorsThanThereAreIsRefusedByName) {
  v1::LayoutProto proto = Built(TwoBlocks()).ToProto();
  proto.mutable_blocks(1)->set_tensors(0xFFFFFFFF);
  EXPECT_THAT(Layout::FromProto(proto), StatusIs(kInvalid, HasSubstr("head")));
}

TEST(LayoutTest, TensorsOfNoBlockAreRefused) {
  v1::LayoutProto proto = Built(TwoBlocks()).ToProto();
  proto.mutable_blocks(1)->set_tensors(1);
  EXPECT_THAT(Layout::FromProto(proto), StatusIs(kInvalid, HasSubstr("no block")));
  LayoutBuilder builder;
  builder.AddTensor("stray", {3});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("no block")));
}

TEST(LayoutTest, NothingToTrainIsRefused) {
  EXPECT_THAT(LayoutBuilder().Build(), StatusIs(kInvalid, HasSubstr("block of parameters")));
  LayoutBuilder only_buffers;
  only_buffers.AddBuffersBlock("buffers").AddTensor("bn.running_mean", {7});
  EXPECT_THAT(only_buffers.Build(), StatusIs(kInvalid, HasSubstr("block of parameters")));
}

TEST(LayoutTest, ExtentOfZeroIsRefusedByName) {
  LayoutBuilder builder = TwoBlocks();
  builder.AddTensor("empty", {3, 0});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("empty")));
}

TEST(LayoutTest, TooManyElementsAreRefusedByName) {
  for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{
           {(uint64_t{1} << 40) + 1},
           {uint64_t{1} << 32, uint64_t{1} << 32},  // the product overflows 64 bits to 0
           {uint64_t{1} << 63, 2},
           {uint64_t{1} << 20, uint64_t{1} << 20, 2}}) {
    LayoutBuilder builder = TwoBlocks();
    builder.AddTensor("huge", shape);
    EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("huge")));
  }
}

TEST(LayoutTest, TooManyElementsInAllAreRefused) {
  LayoutBuilder builder;
  builder.AddBlock("a").AddTensor("x", {uint64_t{1} << 40}).AddTensor("y", {1});
  EXPECT_THAT(builder.Build(), StatusIs(kInvalid, HasSubstr("in all")));
}

}  // namespace
}  // namespace tally
