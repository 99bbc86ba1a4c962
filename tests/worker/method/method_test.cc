#include "worker/method/method.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/sign_payload.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

constexpr uint32_t kElements = 130;

Layout OneBlock() {
  const std::vector<uint64_t> shape = {kElements};
  return *LayoutBuilder().AddBlock("all").AddTensor("w", shape).Build();
}

v1::RoundSpec Round(uint64_t number) {
  v1::RoundSpec spec;
  spec.set_round(number);
  spec.set_beta1(0.9);
  spec.set_beta2(0.99);
  return spec;
}

std::unique_ptr<Method> Make(const std::string& name, uint32_t worker = 0) {
  MethodOptions options;
  options.spec.set_name(name);
  options.seed = 42;
  options.worker = worker;
  return *MakeMethod(options, OneBlock());
}

Bytes Encode(Method& method, uint64_t round, const std::vector<float>& gradient,
             EncodeStats* stats = nullptr) {
  EncodeStats ignored;
  return *method.Encode(Round(round), {0, kElements, 0, 0}, gradient,
                        stats != nullptr ? stats : &ignored);
}

bool Plus(const Bytes& payload, uint32_t element) {
  const SignView view = *ParseSignPayload(kElements, payload);
  return (view.signs[element / 8] >> (element % 8)) & 1;
}

TEST(Method, UnknownNameListsTheNames) {
  MethodOptions options;
  options.spec.set_name("sgd");
  EXPECT_THAT(MakeMethod(options, OneBlock()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("distributed_lion, global_lion")));
}

TEST(DistributedLion, SendsTheSignOfTheDirection) {
  const std::unique_ptr<Method> method = Make("distributed_lion");
  std::vector<float> gradient(kElements, -0.5f);
  gradient[0] = gradient[64] = gradient[129] = 0.25f;
  const Bytes payload = Encode(*method, 1, gradient);
  for (uint32_t i = 0; i < kElements; ++i) EXPECT_EQ(Plus(payload, i), gradient[i] > 0) << i;
}

TEST(DistributedLion, MomentumOutlastsARound) {
  const std::unique_ptr<Method> method = Make("distributed_lion");
  // m = 0.01 * 100 = 1 after round 1; then c = 0.9 * 1 - 0.1 * 5 is still plus, with m = 0 minus.
  Encode(*method, 1, std::vector<float>(kElements, 100.0f));
  EXPECT_TRUE(Plus(Encode(*method, 2, std::vector<float>(kElements, -5.0f)), 0));
  EXPECT_FALSE(Plus(Encode(*Make("distributed_lion"), 2, std::vector<float>(kElements, -5.0f)), 0));
}

TEST(DistributedLion, GoesOnFromACopyOfItsMomentum) {
  const std::unique_ptr<Method> first = Make("distributed_lion");
  std::vector<float> gradient(kElements);
  for (uint32_t i = 0; i < kElements; ++i) gradient[i] = static_cast<float>(i % 7) - 3.0f;
  Encode(*first, 1, gradient);
  const MethodStateCopy copy = first->CopyState();
  const std::unique_ptr<Method> second = Make("distributed_lion");
  TALLY_ASSERT_OK(second->Restore(copy));
  const std::vector<float> small(kElements, 0.001f);
  EXPECT_EQ(Encode(*second, 2, small), Encode(*first, 2, small));
  EXPECT_NE(Encode(*Make("distributed_lion"), 2, small), Encode(*second, 2, small));
}

TEST(DistributedLion, ACopyThatDoesNotFitChangesNothing) {
  const std::unique_ptr<Method> method = Make("distributed_lion");
  Encode(*method, 1, std::vector<float>(kElements, 1.0f));
  const MethodStateCopy before = method->CopyState();
  EXPECT_THAT(method->Restore({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("expected 1 arrays, found 0")));
  EXPECT_THAT(method->Restore({{"speed", std::vector<float>(kElements)}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("momentum: missing")));
  EXPECT_THAT(method->Restore({{"momentum", std::vector<float>(3)}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 130 values")));
  EXPECT_EQ(method->CopyState(), before);
}

TEST(GradientMean, KeepsNothing) {
  const std::unique_ptr<Method> method = Make("global_lion");
  EXPECT_TRUE(method->CopyState().empty());
  TALLY_EXPECT_OK(method->Restore({}));
}

TEST(DistributedLion, ZerosAreSilentOrRandomByWorkerAndRound) {
  std::vector<float> gradient(kElements, 0.0f);
  gradient[0] = 1.0f;  // lane 0 votes, with random bits for its zeros; lanes 1 and 2 are silent
  const Bytes first = Encode(*Make("distributed_lion", 0), 1, gradient);
  const SignView view = *ParseSignPayload(kElements, first);
  EXPECT_TRUE(view.votes(0));
  EXPECT_FALSE(view.votes(1));
  EXPECT_FALSE(view.votes(2));
  EXPECT_EQ(first, Encode(*Make("distributed_lion", 0), 1, gradient));
  EXPECT_NE(first, Encode(*Make("distributed_lion", 1), 1, gradient));
  EXPECT_NE(first, Encode(*Make("distributed_lion", 0), 2, gradient));
}

TEST(DistributedLion, ValuesThatAreNotFiniteAreCountedAndDoNotStay) {
  const std::unique_ptr<Method> method = Make("distributed_lion");
  std::vector<float> gradient(kElements, 1.0f);
  gradient[5] = std::numeric_limits<float>::quiet_NaN();
  gradient[6] = -std::numeric_limits<float>::infinity();
  EncodeStats stats;
  Encode(*method, 1, gradient, &stats);
  EXPECT_EQ(stats.nonfinite, 2u);
  const Bytes next = Encode(*method, 2, std::vector<float>(kElements, 1.0f), &stats);
  EXPECT_EQ(stats.nonfinite, 2u);
  EXPECT_TRUE(Plus(next, 5));
  EXPECT_TRUE(Plus(next, 6));
}

TEST(GradientMean, SendsTheGradientWithNonFiniteValuesAsZero) {
  const std::unique_ptr<Method> method = Make("global_adamw");
  std::vector<float> gradient(kElements, 0.125f);
  gradient[3] = std::numeric_limits<float>::infinity();
  EncodeStats stats;
  const Bytes payload = Encode(*method, 1, gradient, &stats);
  const DenseView view = *ParseDense(kElements, payload);
  EXPECT_EQ(view.value(2), 0.125f);
  EXPECT_EQ(view.value(3), 0.0f);
  EXPECT_EQ(stats.nonfinite, 1u);
}

}  // namespace
}  // namespace tally
