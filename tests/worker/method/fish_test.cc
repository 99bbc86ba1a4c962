// FISH's worker side on spans: the optimiser's state follows the mask, and signs lose nothing for good.
#include <cmath>
#include <vector>

#include "common/base/status_matchers.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/update/round_context.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/local/local_parameters.h"
#include "worker/method/method.h"

namespace tally {
namespace {

using testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class FishMethodTest : public ::testing::Test {
 protected:
  FishMethodTest() {
    layout_ = *LayoutBuilder().AddBlock("all").AddTensor("w", {100}).Build();
    round_.set_round(2);
    round_.set_reduction("sparse_mean");
    round_.set_chunk_elements(128);
    round_.set_mask_round(1);
    options_.spec.set_name("fish");
    options_.spec.mutable_local()->set_optimiser("sgd");
    options_.spec.mutable_local()->set_momentum(0.5);
    options_.spec.mutable_local()->set_dtype("float32");
  }

  MaskPointer MaskOf(std::vector<uint32_t> indices, uint64_t round = 1) {
    v1::RoundSpec spec;
    spec.set_round(round);
    spec.set_chunk_elements(128);
    spec.set_mask_size(indices.size());
    const Bytes set = EncodeIndexSet({100, std::move(indices)});
    return *Mask::Create(layout_, spec, {ByteSpan(set)});
  }
  void SetDtype(const std::string& dtype) {
    options_.spec.mutable_local()->set_dtype(dtype);
    round_.set_dtype(dtype);
  }
  std::vector<float> Sent(Method& method, const Mask& mask, const std::vector<float>& delta) {
    EncodeStats stats;
    const Chunk chunk = mask.grid()[0];
    method.BeginContribution();
    const Bytes payload = *method.Encode(round_, chunk, delta, &stats);
    method.EndContribution();
    const ChunkContext context = *ContributionContext(round_, chunk, &mask[0]);
    const SparseView view = *ParseSparse(context, payload);
    std::vector<float> values(delta.size());
    view.Decode(0, absl::MakeSpan(values));
    return values;
  }
  static absl::Span<float> Slot(Method& method, const std::string& name) {
    for (const MethodState& state : method.State()) {
      if (state.name == name) return state.values;
    }
    return {};
  }

  Layout layout_;
  v1::RoundSpec round_;
  MethodOptions options_;
};

TEST_F(FishMethodTest, StateIsProportionalToTheMask) {
  options_.spec.mutable_local()->set_optimiser("adamw");
  options_.spec.mutable_local()->set_momentum(0);
  options_.spec.set_beta1(0.9);
  options_.spec.set_beta2(0.999);
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(MaskOf({1, 50, 99}));
  EXPECT_THAT(Slot(*method, "optimiser.0"), SizeIs(3));
  EXPECT_THAT(Slot(*method, "optimiser.1"), SizeIs(3));
}

TEST_F(FishMethodTest, MomentumOfElementsThatStayGoesOn) {
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(MaskOf({1, 5, 9}));
  std::vector<float> x(3);
  TALLY_ASSERT_OK(method->LocalStep(0.1, {1.0f, 2.0f, 3.0f}, absl::MakeSpan(x)));
  method->SetMask(MaskOf({0, 5, 7, 9}, 4));
  EXPECT_THAT(Slot(*method, "optimiser.0"), ElementsAre(0.0f, 2.0f, 0.0f, 3.0f));
  method->SetMask(MaskOf({5}, 8));
  EXPECT_THAT(Slot(*method, "optimiser.0"), ElementsAre(2.0f));
}

TEST_F(FishMethodTest, DeltasTravelAsTheyAre) {
  const MaskPointer mask = MaskOf({1, 50, 99});
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(mask);
  EXPECT_THAT(Sent(*method, *mask, {0.25f, -1.5f, 3.0f}), ElementsAre(0.25f, -1.5f, 3.0f));
}

// What a bit cannot say is said later: the sums of what was sent stay within a step of the deltas' sums.
TEST_F(FishMethodTest, WhatSignsLoseIsFedBack) {
  SetDtype("sign");
  const MaskPointer mask = MaskOf({1, 50, 99});
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(mask);
  std::vector<double> sent(3), wanted(3);
  const std::vector<float> delta = {0.1f, -0.9f, 0.35f};
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> values = Sent(*method, *mask, delta);
    EXPECT_EQ(std::fabs(values[0]), std::fabs(values[1]));
    for (size_t i = 0; i < 3; ++i) {
      sent[i] += values[i];
      wanted[i] += delta[i];
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(sent[i], wanted[i], 3.0) << i;
  EXPECT_THAT(Slot(*method, "error"), SizeIs(3));
}

TEST_F(FishMethodTest, ACheckpointNeedsItsMask) {
  SetDtype("sign");
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(MaskOf({1, 5, 9}));
  std::vector<float> x(3);
  TALLY_ASSERT_OK(method->LocalStep(0.1, {1.0f, 2.0f, 3.0f}, absl::MakeSpan(x)));
  const MethodStateCopy copy = method->CopyState();
  const auto other = *MakeMethod(options_, layout_);
  EXPECT_THAT(other->Restore(copy), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 0")));
  other->SetMask(MaskOf({1, 5, 9}));
  TALLY_ASSERT_OK(other->Restore(copy));
  EXPECT_EQ(other->CopyState(), copy);
}

TEST_F(FishMethodTest, ADeltaThatIsNotFiniteIsRefused) {
  for (const char* dtype : {"float32", "bf16", "sign"}) {
    SetDtype(dtype);
    const MaskPointer mask = MaskOf({1, 50});
    const auto method = *MakeMethod(options_, layout_);
    method->SetMask(mask);
    EncodeStats stats;
    method->BeginContribution();
    EXPECT_THAT(method->Encode(round_, mask->grid()[0], {1.0f, std::nanf("")}, &stats),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sparse payload")))
        << dtype;
    // Nothing of it stays behind: the next contribution is as if it had not been.
    for (const float value : Sent(*method, *mask, {2.0f, -2.0f})) EXPECT_EQ(std::fabs(value), 2.0f);
  }
}

TEST_F(FishMethodTest, ARoundOverAnotherMaskIsRefused) {
  const auto method = *MakeMethod(options_, layout_);
  method->SetMask(MaskOf({1}, 7));
  EncodeStats stats;
  EXPECT_THAT(method->Encode(round_, {0, 100, 0, 0}, {1.0f}, &stats),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected the mask of round 1")));
}

TEST_F(FishMethodTest, LocalParametersTouchTheMaskAlone) {
  std::vector<float> x = {1, 2, 3, 4, 5};
  x.resize(100);
  const MaskPointer mask = MaskOf({1, 3});
  LocalParameters moved(absl::MakeSpan(x), mask.get());
  EXPECT_THAT(moved.Gather(x), ElementsAre(2, 4));
  moved.Take()[1] = 40;
  moved.Put();
  std::vector<float> other = {-2, -4};
  moved.Swap(other);
  EXPECT_THAT(other, ElementsAre(2, 40));
  EXPECT_THAT(std::vector<float>(x.begin(), x.begin() + 5), ElementsAre(1, -2, 3, -4, 5));
}

}  // namespace
}  // namespace tally
