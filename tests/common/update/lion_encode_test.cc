#include "common/update/lion_encode.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "common/reduction/sign_payload.h"
#include "gtest/gtest.h"
#include "tests/common/reduction/reference.h"
#include "tests/common/reduction/targets.h"
#include "tests/common/update/bits.h"

namespace tally {
namespace {

using ::testing::HasSubstr;
using testing::BitsOf;
using testing::ForEachTarget;
using testing::IsOk;
using testing::StatusIs;
using testing::VoteList;

struct Encoded {
  VoteList votes;
  std::vector<float> momentum;
  uint64_t nonfinite = 0;
  uint64_t silent_lanes = 0;
};

// The definition in lion_encode.h, one element at a time.
Encoded Reference(const std::vector<float>& gradient, std::vector<float> momentum,
                  const LionEncodeOptions& options) {
  const float b1 = options.beta1, b1c = 1 - options.beta1;
  const float b2 = options.beta2, b2c = 1 - options.beta2;
  Encoded result{VoteList(gradient.size()), momentum};
  for (size_t lane = 0; lane * 64 < gradient.size(); ++lane) {
    const size_t begin = lane * 64, end = std::min(begin + 64, gradient.size());
    const uint64_t random = RandomWord(options.zero_key, options.first_lane + lane);
    bool silent = true;
    for (size_t i = begin; i < end; ++i) {
      const float g = std::isfinite(gradient[i]) ? gradient[i] : 0;
      result.nonfinite += !std::isfinite(gradient[i]);
      const float kept = b1 * momentum[i], fresh = b1c * g;
      const float c = kept + fresh;
      const float old = b2 * momentum[i], added = b2c * g;
      result.momentum[i] = old + added;
      result.votes[i] = c > 0 ? 1 : c < 0 ? -1 : (random >> (i % 64)) & 1 ? 1 : -1;
      silent &= c == 0;
    }
    if (!silent) continue;
    ++result.silent_lanes;
    std::fill(result.votes.begin() + begin, result.votes.begin() + end, 0);
  }
  return result;
}

void CheckEncode(const std::vector<float>& gradient, const std::vector<float>& momentum,
                 const LionEncodeOptions& options) {
  const Encoded expected = Reference(gradient, momentum, options);
  ForEachTarget([&] {
    std::vector<float> moved = momentum;
    Bytes payload;
    TALLY_ASSERT_OK_AND_ASSIGN(const LionEncodeStats stats,
                               LionEncode(gradient, absl::MakeSpan(moved), options, &payload));
    TALLY_ASSERT_OK(CheckSignPayload(gradient.size(), payload));
    EXPECT_EQ(payload, testing::ReferencePack(expected.votes));
    EXPECT_EQ(stats.payload_bytes, payload.size());
    EXPECT_EQ(BitsOf(moved), BitsOf(expected.momentum));
    EXPECT_EQ(stats.nonfinite, expected.nonfinite);
    EXPECT_EQ(stats.silent_lanes, expected.silent_lanes);
  });
}

std::vector<float> Normal(size_t count, float scale, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

const LionEncodeOptions kOptions{.zero_key = 0xabc, .first_lane = 12};

TEST(LionEncode, EveryTail) {
  std::mt19937_64 random(1);
  for (size_t count = 1; count <= 130; ++count) {
    SCOPED_TRACE(count);
    CheckEncode(Normal(count, 1, random), Normal(count, 0.1, random), kOptions);
  }
}

TEST(LionEncode, ZerosOfBothSignsAndSilentLanes) {
  std::mt19937_64 random(2);
  for (size_t count : {1, 63, 64, 65, 64 * 64, 64 * 130 + 7}) {
    std::vector<float> gradient = Normal(count, 1, random), momentum(count);
    for (size_t i = 0; i < count; ++i) {
      const bool zero_lane = i / 64 % 3 == 1;
      if (zero_lane || random() % 4 == 0) gradient[i] = random() & 1 ? 0.0f : -0.0f;
      momentum[i] = random() & 1 ? 0.0f : -0.0f;
    }
    SCOPED_TRACE(count);
    CheckEncode(gradient, momentum, kOptions);
    CheckEncode(std::vector<float>(count), std::vector<float>(count), kOptions);
  }
}

TEST(LionEncode, NonfiniteGradientsCountAsZeroAndAreCounted) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::mt19937_64 random(3);
  std::vector<float> gradient = Normal(64 * 3 + 5, 1, random);
  const std::vector<float> momentum = Normal(gradient.size(), 1, random);
  gradient[0] = kInf;
  gradient[70] = -kInf;
  gradient[196] = std::numeric_limits<float>::quiet_NaN();
  CheckEncode(gradient, momentum, kOptions);
  EXPECT_EQ(Reference(gradient, momentum, kOptions).nonfinite, 3u);
}

TEST(LionEncode, HugeAndDenormalGradients) {
  std::mt19937_64 random(4);
  std::vector<float> gradient(64 * 4);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float scale = i % 2 ? 1e38f : std::numeric_limits<float>::denorm_min() * 100;
    gradient[i] = random() & 1 ? scale : -scale;
  }
  CheckEncode(gradient, std::vector<float>(gradient.size()), kOptions);
}

TEST(LionEncode, SignumIsLionWithEqualBetas) {
  std::mt19937_64 random(5);
  CheckEncode(Normal(1000, 1, random), Normal(1000, 1, random),
              {.beta1 = 0.99, .beta2 = 0.99, .zero_key = 1});
}

TEST(LionEncode, WritesIntoPlaceAtAnyAddress) {
  std::mt19937_64 random(6);
  const std::vector<float> gradient = Normal(200, 1, random);
  std::vector<float> first(200), second(200);
  Bytes expected;
  TALLY_ASSERT_OK(LionEncode(gradient, absl::MakeSpan(first), kOptions, &expected));
  Bytes buffer(SignPayloadBytes(200, true) + 3, 0xee);
  TALLY_ASSERT_OK_AND_ASSIGN(
      const LionEncodeStats stats,
      LionEncode(gradient, absl::MakeSpan(second), kOptions, absl::MakeSpan(buffer).subspan(3)));
  EXPECT_EQ(Bytes(buffer.begin() + 3, buffer.begin() + 3 + stats.payload_bytes), expected);
}

TEST(LionEncode, RefusesWrongSizesAndBetas) {
  std::vector<float> gradient(10), momentum(9);
  Bytes payload;
  const auto refused = [](absl::string_view message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(message)));
  };
  EXPECT_THAT(LionEncode(gradient, absl::MakeSpan(momentum), {}, &payload), refused("10 and 9"));
  EXPECT_THAT(LionEncode({}, {}, {}, &payload), refused("0 and 0"));
  momentum.resize(10);
  EXPECT_THAT(LionEncode(gradient, absl::MakeSpan(momentum), {.beta1 = 1}, &payload),
              refused("beta1"));
  EXPECT_THAT(LionEncode(gradient, absl::MakeSpan(momentum), {.beta2 = std::nan("")}, &payload),
              refused("beta2"));
  Bytes small(23);
  EXPECT_THAT(LionEncode(gradient, absl::MakeSpan(momentum), {}, absl::MakeSpan(small)),
              refused("expected 24 bytes for the payload, found 23"));
}

}  // namespace
}  // namespace tally
