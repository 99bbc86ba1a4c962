#include "worker/local/local_optimiser.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

std::unique_ptr<LocalOptimiser> Make(LocalOptimiserOptions options, size_t count) {
  auto made = LocalOptimiser::Create(std::move(options), count);
  TALLY_EXPECT_OK(made.status());
  return *std::move(made);
}

// f(x) = sum of (x - target)^2 / 2: every optimiser comes close to its lowest point.
TEST(LocalOptimiser, EachFindsTheLowestPoint) {
  const std::vector<float> target = {1, -2, 0.5f, 3};
  for (const std::string& name : LocalOptimisers()) {
    const auto optimiser = Make({.name = name, .momentum = 0.9}, target.size());
    std::vector<float> x(target.size()), gradient(target.size());
    constexpr int kSteps = 2000;
    for (int step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < x.size(); ++i) gradient[i] = x[i] - target[i];
      TALLY_ASSERT_OK(
          optimiser->Step(0.02 * (1 - double{1} * step / kSteps), gradient, absl::MakeSpan(x)));
    }
    EXPECT_EQ(optimiser->steps(), kSteps);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], target[i], 0.01) << name;
  }
}

// With no gradient a decoupled decay alone moves the parameters; Lion's is lr * wd.
TEST(LocalOptimiser, DecayIsDecoupledForAdamWAndLion) {
  for (const char* name : {"adamw", "lion"}) {
    std::vector<float> x = {1};
    TALLY_ASSERT_OK(
        Make({.name = name, .weight_decay = 0.1}, 1)->Step(0.1, {0.0f}, absl::MakeSpan(x)));
    EXPECT_EQ(x[0], 0.99f) << name;
  }
}

TEST(LocalOptimiser, GoesOnFromRestoredState) {
  for (const std::string& name : LocalOptimisers()) {
    const LocalOptimiserOptions options{.name = name, .momentum = 0.9, .weight_decay = 0.01};
    const auto first = Make(options, 3), second = Make(options, 3);
    std::vector<float> x = {1, 2, 3};
    for (int step = 0; step < 5; ++step) {
      TALLY_ASSERT_OK(first->Step(0.1, {0.5f, -1, 2}, absl::MakeSpan(x)));
    }
    std::vector<std::vector<float>> copy;
    for (const absl::Span<float> slot : first->state()) copy.emplace_back(slot.begin(), slot.end());
    TALLY_ASSERT_OK(second->Restore(first->steps(), copy));
    std::vector<float> y = x;
    TALLY_ASSERT_OK(first->Step(0.1, {1, 1, -1}, absl::MakeSpan(x)));
    TALLY_ASSERT_OK(second->Step(0.1, {1, 1, -1}, absl::MakeSpan(y)));
    EXPECT_EQ(x, y) << name;
  }
}

// A gradient that is not finite moves nothing, neither parameters nor state nor the count.
TEST(LocalOptimiser, RefusesAGradientThatIsNotFinite) {
  for (const std::string& name : LocalOptimisers()) {
    const auto optimiser = Make({.name = name, .weight_decay = 0.1}, 2);
    std::vector<float> x = {1, 2};
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      EXPECT_THAT(optimiser->Step(0.1, {1, bad}, absl::MakeSpan(x)),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("gradient: element 1 is not finite")));
    }
    EXPECT_EQ(x, (std::vector<float>{1, 2}));
    EXPECT_EQ(optimiser->steps(), 0u);
    for (const absl::Span<float> slot : optimiser->state()) {
      EXPECT_EQ(std::vector<float>(slot.begin(), slot.end()), (std::vector<float>{0, 0}));
    }
  }
}

TEST(LocalOptimiser, RefusesOtherSizesAndRates) {
  const auto optimiser = Make({.name = "sgd"}, 2);
  std::vector<float> x = {1, 2};
  EXPECT_THAT(optimiser->Step(0.1, {1}, absl::MakeSpan(x)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 2 parameters")));
  EXPECT_THAT(optimiser->Step(std::nan(""), {1, 1}, absl::MakeSpan(x)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("learning rate")));
  EXPECT_THAT(optimiser->Restore(1, {std::vector<float>(3)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 arrays of 2 values")));
  EXPECT_EQ(x, (std::vector<float>{1, 2}));
}

TEST(LocalOptimiser, NamesEveryOptionThatIsOutOfRange) {
  EXPECT_THAT(
      LocalOptimiser::Create({.name = "adam", .momentum = 1, .beta1 = -1, .beta2 = std::nan(""),
                              .epsilon = 0, .weight_decay = -1},
                             1)
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("one of sgd, adamw, lion; found \"adam\""), HasSubstr("momentum"),
                     HasSubstr("beta1"), HasSubstr("beta2"), HasSubstr("epsilon"),
                     HasSubstr("weight_decay"))));
}

// What FISH needs: memory in proportion to what is trained.
TEST(LocalOptimiser, StateIsAsLargeAsWhatItMoves) {
  EXPECT_EQ(Make({.name = "adamw"}, 7)->state().size(), 2u);
  EXPECT_EQ(Make({.name = "lion"}, 7)->state().size(), 1u);
  EXPECT_EQ(Make({.name = "sgd"}, 7)->state()[0].size(), 7u);
}

}  // namespace
}  // namespace tally
