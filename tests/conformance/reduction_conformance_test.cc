// What every reduction promises, tried on all that the registry lists: a new one is picked up by
// its line there. Arithmetic is tested beside each; here are the rules of the interface.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "common/reduction/index_set/index_set.h"
#include "common/reduction/reduction.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using testing::IsOk;
using testing::StatusIs;
using ::testing::_;

constexpr uint32_t kCounts[] = {1, 63, 64, 65, 130, 64 * 64, 64 * 600 + 9};

// A reduction, and the payloads that it has a choice of.
struct Case {
  std::string reduction;
  ValueDtype dtype = ValueDtype::kFloat32;
  bool masked = false;
};

class ReductionConformance : public ::testing::TestWithParam<Case> {
 protected:
  const Reduction& reduction() const { return **FindReduction(GetParam().reduction); }

  // Every third element, and a whole lane.
  const IndexSet* MaskOf(uint32_t count) {
    if (!GetParam().masked || count == 0) return nullptr;
    IndexSet& mask = masks_[count];
    if (mask.count == count) return &mask;
    mask.count = count;
    for (uint32_t i = 0; i < count; ++i) {
      if (i % 3 == 0 || i / 64 == 1) mask.indices.push_back(i);
    }
    return &mask;
  }
  ChunkContext OfContributions(uint32_t count) {
    return {.first_lane = 3, .count = count, .dtype = GetParam().dtype, .mask = MaskOf(count)};
  }
  ChunkContext OfAggregate(uint32_t count) {
    ChunkContext context = OfContributions(count);
    if (context.dtype == ValueDtype::kSign) context.dtype = ValueDtype::kBfloat16;
    return context;
  }
  Bytes Pack(const std::vector<float>& values, uint64_t zero_key) {
    return reduction().Pack(OfContributions(static_cast<uint32_t>(values.size())), values, zero_key);
  }

  // Numbers of either sign with zeros among them and, sometimes, whole lanes of zeros.
  std::vector<float> Values(uint32_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (uint32_t i = 0; i < count; ++i) {
      const bool zero = i / 64 % 5 == 3 || random_() % 16 == 0;
      values[i] = zero ? 0.0f : normal(random_);
    }
    return values;
  }

  std::vector<Bytes> Payloads(uint32_t count, size_t voters) {
    std::vector<Bytes> payloads;
    for (size_t v = 0; v < voters; ++v) payloads.push_back(Pack(Values(count), v));
    return payloads;
  }

  std::vector<Contribution> Contributions(const std::vector<Bytes>& payloads) {
    std::vector<Contribution> contributions;
    for (size_t v = 0; v < payloads.size(); ++v) {
      contributions.push_back({payloads[v], static_cast<double>(1 + v % 3)});
    }
    return contributions;
  }

  Bytes Reduce(const ChunkContext& context, absl::Span<const Contribution> contributions) {
    absl::StatusOr<Bytes> aggregate = reduction().Reduce(context, contributions);
    EXPECT_THAT(aggregate, IsOk());
    return aggregate.ok() ? *std::move(aggregate) : Bytes();
  }

  ChunkContext Context(uint32_t count, bool zero_ties = false) {
    ChunkContext context = OfContributions(count);
    context.tie_key = 11;
    context.zero_ties = zero_ties;
    return context;
  }

  std::mt19937_64 random_{7};

 private:
  std::map<uint32_t, IndexSet> masks_;
};

TEST_P(ReductionConformance, SizesAreWithinTheBoundsGiven) {
  EXPECT_GT(reduction().max_chunk_elements(), 0u);
  EXPECT_EQ(reduction().max_chunk_elements() % 64, 0u);
  EXPECT_LE(reduction().MaxContributionBytes(reduction().max_chunk_elements()), 1.1 * (1 << 20));
  for (uint32_t count : kCounts) {
    for (size_t voters : {1, 4, 7}) {
      const std::vector<Bytes> payloads = Payloads(count, voters);
      for (const Bytes& payload : payloads) {
        EXPECT_LE(payload.size(), reduction().MaxContributionBytes(count));
      }
      for (bool zero_ties : {false, true}) {
        const Bytes aggregate = Reduce(Context(count, zero_ties), Contributions(payloads));
        EXPECT_LE(aggregate.size(), reduction().MaxAggregateBytes(count, voters));
        TALLY_EXPECT_OK(reduction().CheckAggregate(OfAggregate(count), aggregate));
      }
    }
  }
}

TEST_P(ReductionConformance, AggregateOfEqualsSaysWhatOneSays) {
  for (uint32_t count : kCounts) {
    const Bytes payload = Pack(Values(count), 5);
    TALLY_ASSERT_OK(reduction().CheckContribution(OfContributions(count), payload));
    const Bytes one = Reduce(Context(count), {{payload, 1}});
    const Bytes three = Reduce(Context(count), {{payload, 1}, {payload, 1}, {payload, 1}});
    TALLY_ASSERT_OK_AND_ASSIGN(const auto of_one, reduction().Unpack(OfAggregate(count), one));
    TALLY_ASSERT_OK_AND_ASSIGN(const auto of_three, reduction().Unpack(OfAggregate(count), three));
    ASSERT_EQ(of_one.size(), count);
    EXPECT_EQ(of_one, of_three);
  }
}

TEST_P(ReductionConformance, SignsOfOneContributionSurvive) {
  const std::vector<float> values = Values(130);
  const Bytes aggregate = Reduce(Context(130), {{Pack(values, 5), 1}});
  TALLY_ASSERT_OK_AND_ASSIGN(const auto found, reduction().Unpack(OfAggregate(130), aggregate));
  const IndexSet* mask = MaskOf(130);
  for (uint32_t i = 0; i < values.size(); ++i) {
    const bool travels = mask == nullptr || std::binary_search(mask->indices.begin(), mask->indices.end(), i);
    if (values[i] == 0 || !travels) continue;
    EXPECT_EQ(found[i] > 0, values[i] > 0) << i;
  }
}

TEST_P(ReductionConformance, GroupingDoesNotMatter) {
  for (uint32_t count : kCounts) {
    const std::vector<Bytes> payloads = Payloads(count, 9);
    const std::vector<Contribution> all = Contributions(payloads);
    for (bool zero_ties : {false, true}) {
      const ChunkContext context = Context(count, zero_ties);
      const Bytes expected = Reduce(context, all);
      for (int trial = 0; trial < 5; ++trial) {
        const auto accumulator = reduction().NewAccumulator(context);
        for (size_t first = 0; first < all.size();) {
          const size_t size = trial == 0 ? 1 : 1 + random_() % (all.size() - first);
          TALLY_ASSERT_OK(accumulator->Add(absl::MakeConstSpan(all).subspan(first, size)));
          first += size;
        }
        TALLY_ASSERT_OK_AND_ASSIGN(const Bytes found, accumulator->Finish());
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST_P(ReductionConformance, OrderDoesNotMatterToWhatCountsChunkByChunk) {
  if (reduction().counts_whole()) GTEST_SKIP() << "a mean adds in the order given";
  const std::vector<Bytes> payloads = Payloads(1000, 8);
  std::vector<Contribution> contributions = Contributions(payloads);
  const Bytes expected = Reduce(Context(1000), contributions);
  for (int trial = 0; trial < 5; ++trial) {
    std::shuffle(contributions.begin(), contributions.end(), random_);
    EXPECT_EQ(Reduce(Context(1000), contributions), expected);
  }
}

TEST_P(ReductionConformance, MemoryIsUsedAgain) {
  const std::vector<Bytes> payloads = Payloads(1000, 4), others = Payloads(1000, 4);
  Bytes aggregate = Bytes(5000, 0xee);
  for (const std::vector<Bytes>& round : {payloads, others}) {
    TALLY_ASSERT_OK(reduction().ReduceInto(Context(1000), Contributions(round), &aggregate));
    EXPECT_EQ(aggregate, Reduce(Context(1000), Contributions(round)));
  }
}

TEST_P(ReductionConformance, TruncatedAndExtendedPayloadsAreRefused) {
  for (uint32_t count : {1u, 65u, 130u}) {
    const std::vector<Bytes> payloads = Payloads(count, 4);
    const Bytes aggregate = Reduce(Context(count), Contributions(payloads));
    for (size_t size = 0; size <= payloads[0].size() + 9; ++size) {
      if (size == payloads[0].size()) continue;
      Bytes payload = payloads[0];
      payload.resize(size);
      EXPECT_THAT(reduction().CheckContribution(OfContributions(count), payload),
                  StatusIs(absl::StatusCode::kInvalidArgument, _));
      EXPECT_THAT(reduction().Reduce(Context(count), {{payload, 1}}),
                  StatusIs(absl::StatusCode::kInvalidArgument, _));
    }
    for (size_t size = 0; size <= aggregate.size() + 9; ++size) {
      if (size == aggregate.size()) continue;
      Bytes payload = aggregate;
      payload.resize(size);
      EXPECT_THAT(reduction().CheckAggregate(OfAggregate(count), payload),
                  StatusIs(absl::StatusCode::kInvalidArgument, _));
      EXPECT_THAT(reduction().Unpack(OfAggregate(count), payload),
                  StatusIs(absl::StatusCode::kInvalidArgument, _));
    }
  }
}

TEST_P(ReductionConformance, GarbageIsRefusedOrHarmless) {
  for (int trial = 0; trial < 2000; ++trial) {
    const uint32_t count = 1 + random_() % 200;
    Bytes payload = Payloads(count, 1)[0];
    for (unsigned char& byte : payload) {
      if (trial % 2 || random_() % 8 == 0) byte = static_cast<unsigned char>(random_());
    }
    if (reduction().CheckContribution(OfContributions(count), payload).ok()) {
      TALLY_EXPECT_OK(
          reduction().CheckAggregate(OfAggregate(count), Reduce(Context(count), {{payload, 1}})));
    }
    if (reduction().CheckAggregate(OfAggregate(count), payload).ok()) {
      TALLY_ASSERT_OK_AND_ASSIGN(const auto values, reduction().Unpack(OfAggregate(count), payload));
      for (float value : values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST_P(ReductionConformance, RandomHeadIsRefused) {
  for (int byte = 0; byte < 8; ++byte) {
    Bytes payload = Pack(Values(64), 0);
    payload[byte] ^= 0xf0;
    EXPECT_THAT(reduction().CheckContribution(OfContributions(64), payload),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
}

TEST_P(ReductionConformance, ChunkWithoutElementsIsRefused) {
  const Bytes payload = Pack({1.0f}, 0);
  EXPECT_THAT(reduction().CheckContribution(OfContributions(0), payload),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(reduction().CheckAggregate(OfAggregate(0), payload),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
}

TEST_P(ReductionConformance, NothingAddedFails) {
  EXPECT_THAT(reduction().NewAccumulator(Context(10))->Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(reduction().Reduce(Context(10), {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_P(ReductionConformance, AllWeightsZeroFails) {
  const Bytes payload = Pack(Values(10), 0);
  const std::vector<Contribution> zeros = {{payload, 0}, {payload, 0}};
  const auto accumulator = reduction().NewAccumulator(Context(10));
  TALLY_ASSERT_OK(accumulator->Add(zeros));
  EXPECT_THAT(accumulator->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(reduction().Reduce(Context(10), zeros),
              StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

TEST_P(ReductionConformance, RefusedContributionsLeaveNothingBehind) {
  const std::vector<Bytes> payloads = Payloads(100, 3);
  const auto accumulator = reduction().NewAccumulator(Context(100));
  TALLY_ASSERT_OK(accumulator->Add({{payloads[0], 1}}));
  Bytes cut = payloads[2];
  cut.pop_back();
  EXPECT_THAT(accumulator->Add({{payloads[1], 1}, {cut, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, _));
  for (double bad : {-1.0, std::nan(""), HUGE_VAL, 9.3e18}) {
    EXPECT_THAT(accumulator->Add({{payloads[1], 1}, {payloads[2], bad}}),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const Bytes found, accumulator->Finish());
  EXPECT_EQ(found, Reduce(Context(100), {{payloads[0], 1}}));
}

TEST_P(ReductionConformance, MemoryIsStatedAndDoesNotGrowWithVoters) {
  const std::vector<Bytes> payloads = Payloads(64 * 100, 1);
  const auto accumulator = reduction().NewAccumulator(Context(64 * 100));
  TALLY_ASSERT_OK(accumulator->Add({{payloads[0], 1}}));
  EXPECT_GT(accumulator->memory(), 0u);
  for (int i = 1; i < 200; ++i) TALLY_ASSERT_OK(accumulator->Add({{payloads[0], 1}}));
  // A count of 200 takes 8 bits an element, doubled by the growth of a vector; a mean's sum and weight
  // 16 bytes.
  const size_t most = reduction().counts_whole() ? 16 * 64 * 100 : 2 * 8 * payloads[0].size();
  EXPECT_LE(accumulator->memory(), most + 4096);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const absl::string_view name : ReductionNames()) {
    cases.push_back({std::string(name)});
    if (name != "dense_mean" && name != "sparse_mean") continue;
    cases.push_back({std::string(name), ValueDtype::kBfloat16});
    cases.push_back({std::string(name), ValueDtype::kFloat16});
  }
  for (const ValueDtype dtype :
       {ValueDtype::kFloat32, ValueDtype::kBfloat16, ValueDtype::kFloat16, ValueDtype::kSign}) {
    cases.push_back({"sparse_mean", dtype, true});
  }
  cases.push_back({"sparse_mean", ValueDtype::kSign});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Registry, ReductionConformance, ::testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return absl::StrCat(info.param.reduction, "_",
                                               ValueDtypeName(info.param.dtype),
                                               info.param.masked ? "_masked" : "");
                         });

}  // namespace
}  // namespace tally
