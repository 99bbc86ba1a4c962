// Rounds of local steps and mask rounds as OpenRound takes them: contributions on the disk, over a mask or
// of scores.
#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/reduction/dense_mean/dense_payload.h"
#include "common/reduction/sparse_mean/sparse_payload.h"
#include "common/update/round_context.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/round/mask_selection.h"
#include "server/round/open_round.h"
#include "tests/common/base/temp_folder.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Blocks of 300 and 200 elements in chunks of 128: 3 + 2.
class LocalRoundsTest : public ::testing::Test {
 protected:
  LocalRoundsTest() {
    LayoutBuilder builder;
    builder.AddBlock("a").AddTensor("a.weight", {300});
    builder.AddBlock("b").AddTensor("b.weight", {200});
    layout_ = *builder.Build();
    spec_.set_round(7);
    spec_.set_reduction("dense_mean");
    spec_.set_chunk_elements(128);
    spec_.set_local_steps(3);
  }

  void Open(uint32_t workers) {
    const ChunkGrid grid = *GridForRound(layout_, spec_);
    auto staged = StagedContributions::Open(folder_.path(), spec_, grid.size());
    ASSERT_THAT(staged, IsOk());
    round_ = std::make_unique<OpenRound>(spec_, grid, *FindReduction(spec_.reduction()), 1,
                                         absl::ZeroDuration(), *std::move(staged), mask_);
    for (uint32_t worker = 0; worker < workers; ++worker) round_->Await(worker);
  }
  // A mask of every tenth element and the whole of block b, made by round 5.
  void UseMask() {
    v1::RoundSpec made;
    made.set_round(5);
    made.set_chunk_elements(128);
    std::vector<Bytes> sets;
    const ChunkGrid grid = *GridForRound(layout_, made);
    for (const Chunk& chunk : grid.chunks()) {
      IndexSet set{chunk.count, {}};
      for (uint32_t i = 0; i < chunk.count; ++i) {
        if (chunk.block == 1 || i % 10 == 0) set.indices.push_back(i);
      }
      made.set_mask_size(made.mask_size() + set.indices.size());
      sets.push_back(EncodeIndexSet(set));
    }
    mask_ = *Mask::Create(layout_, made, std::vector<ByteSpan>(sets.begin(), sets.end()));
    spec_.set_reduction("sparse_mean");
    spec_.set_mask_round(5);
  }
  // All of a worker's chunks, each a payload of `values(chunk)`, and their end.
  template <class Values>
  absl::Status Contribute(uint32_t worker, uint64_t samples, Values values) {
    Digester digester;
    for (uint32_t i = 0; i < round_->grid().size(); ++i) {
      const Bytes payload = values(round_->grid()[i]);
      TALLY_RETURN_IF_ERROR(round_->CheckContribution(i, payload));
      const uint64_t digest = Digest64(payload.data(), payload.size());
      TALLY_ASSIGN_OR_RETURN(const Booking booking, round_->Book(worker, i, digest, payload.size()));
      TALLY_RETURN_IF_ERROR(round_->Stage(worker, booking.attempt, i, digest, payload));
      round_->Arrived(worker, booking.attempt, i);
      digester.AddUint64(digest);
    }
    v1::ContributionEnd end;
    end.set_round(7);
    end.set_chunks(round_->grid().size());
    end.set_digest(digester.Finish());
    end.set_samples(samples);
    TALLY_RETURN_IF_ERROR(round_->StageEnd(worker, 0, end));
    return round_->End(worker, end);
  }
  absl::Status ContributeConstant(uint32_t worker, uint64_t samples, float value) {
    return Contribute(worker, samples, [&](const Chunk& chunk) {
      if (mask_ == nullptr) {
        return WriteDense(std::vector<float>(chunk.count, value), *FindValueDtype(spec_.dtype()));
      }
      const IndexSet* set = mask_->Find(chunk);
      return WriteSparse(*ContributionContext(spec_, chunk, set), {},
                         std::vector<float>(set->indices.size(), value));
    });
  }
  std::vector<float> Unpacked(uint32_t index, const AggregateChunk& chunk) {
    const IndexSet* set = mask_ == nullptr ? nullptr : mask_->Find(round_->grid()[index]);
    return *round_->reduction().Unpack(*AggregateContext(spec_, round_->grid()[index], set), *chunk.payload);
  }

  TempFolder folder_;
  Layout layout_;
  v1::RoundSpec spec_;
  MaskPointer mask_;
  std::unique_ptr<OpenRound> round_;
};

TEST_F(LocalRoundsTest, AMeanWeighsBySamplesOrEachTheSame) {
  for (const bool uniform : {false, true}) {
    spec_.set_uniform_weights(uniform);  // of another spec: what lies there is begun anew
    Open(2);
    TALLY_ASSERT_OK(ContributeConstant(0, 30, 1.0f));
    TALLY_ASSERT_OK(ContributeConstant(1, 10, 5.0f));
    round_->ClaimRest();
    TALLY_ASSERT_OK_AND_ASSIGN(const AggregateChunk chunk, round_->Reduce(0));
    EXPECT_EQ(Unpacked(0, chunk)[0], uniform ? 3.0f : 2.0f);
  }
}

TEST_F(LocalRoundsTest, OverAMaskOnlyItsElementsAreSummed) {
  UseMask();
  Open(2);
  TALLY_ASSERT_OK(ContributeConstant(0, 1, 1.0f));
  TALLY_ASSERT_OK(ContributeConstant(1, 3, 3.0f));
  round_->ClaimRest();
  TALLY_ASSERT_OK_AND_ASSIGN(const AggregateChunk chunk, round_->Reduce(0));
  const std::vector<float> values = Unpacked(0, chunk);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], i % 10 == 0 ? 2.5f : 0.0f) << i;
}

// FAULTS: two workers with 0 samples. The round fails loudly.
TEST_F(LocalRoundsTest, AllWeightsZeroFails) {
  for (const bool masked : {false, true}) {
    if (masked) UseMask();
    Open(2);
    TALLY_ASSERT_OK(ContributeConstant(0, 0, 1.0f));
    TALLY_ASSERT_OK(ContributeConstant(1, 0, 1.0f));
    round_->ClaimRest();
    EXPECT_THAT(round_->Reduce(0), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("all weights are zero")));
  }
}

// FAULTS: NaN, infinities, denormals and 1e38 from one worker, in lo-fi's deltas and in FISH's.
TEST_F(LocalRoundsTest, WhatIsNotFiniteIsRefusedAndNamed) {
  for (const bool masked : {false, true}) {
    if (masked) UseMask();
    for (const char* dtype : {"float32", "bf16"}) {
      spec_.set_dtype(dtype);
      Open(1);
      for (const float bad : {kNan, HUGE_VALF, -HUGE_VALF}) {
        EXPECT_THAT(ContributeConstant(0, 1, bad),
                    StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a finite number")));
      }
      for (const float fine : {1e38f, -1e38f, 1e-40f}) {
        const ChunkContext context = *ContributionContext(
            spec_, round_->grid()[0], masked ? mask_->Find(round_->grid()[0]) : nullptr);
        const size_t n = masked ? context.mask->indices.size() : context.count;
        const std::vector<float> values(n, fine);
        TALLY_EXPECT_OK(round_->CheckContribution(
            0, masked ? WriteSparse(context, {}, values) : WriteDense(values, context.dtype)));
      }
    }
  }
}

TEST_F(LocalRoundsTest, ANumberOfSamplesThatNoSumCanHoldIsRefused) {
  Open(1);
  EXPECT_THAT(ContributeConstant(0, uint64_t{1} << 63, 1.0f),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("9223372036854775808 samples")));
}

TEST_F(LocalRoundsTest, ValuesOfAnotherTypeThanTheRoundsAreRefused) {
  spec_.set_dtype("bf16");
  Open(1);
  EXPECT_THAT(round_->CheckContribution(0, WriteDense(std::vector<float>(128, 1.0f))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected values in bf16, found float32")));
}

// A mask round's aggregate is the selection from the workers' means, by samples.
TEST_F(LocalRoundsTest, AMaskRoundSelectsFromTheMeanScores) {
  spec_.set_local_steps(0);
  spec_.set_mask_size(250);
  spec_.set_fisher("empirical");
  Open(2);
  std::mt19937 random(1);
  std::vector<std::vector<float>> scores(2, std::vector<float>(500));
  for (auto& of_worker : scores) {
    for (float& score : of_worker) score = static_cast<float>(random() % 100);
  }
  for (uint32_t worker = 0; worker < 2; ++worker) {
    TALLY_ASSERT_OK(Contribute(worker, 1 + 2 * worker, [&](const Chunk& chunk) {
      return WriteDense(absl::MakeConstSpan(scores[worker]).subspan(chunk.first, chunk.count));
    }));
  }
  round_->ClaimRest();
  TALLY_ASSERT_OK_AND_ASSIGN(const std::vector<AggregateChunk> chunks, round_->ReduceToMask());
  std::vector<float> means(500);
  for (size_t i = 0; i < 500; ++i) {
    means[i] = static_cast<float>((1.0 * scores[0][i] + 3.0 * scores[1][i]) / 4.0);
  }
  const std::vector<Bytes> expected = SelectMask(round_->grid(), means, 250);
  ASSERT_EQ(chunks.size(), expected.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(*chunks[i].payload, expected[i]);
    EXPECT_EQ(chunks[i].voters, 2u);
  }
}

TEST_F(LocalRoundsTest, ARandomMaskNeedsNobody) {
  spec_.set_local_steps(0);
  spec_.set_mask_size(250);
  spec_.set_fisher("random");
  spec_.set_tie_key(5);
  Open(0);
  round_->ClaimRest();
  TALLY_ASSERT_OK_AND_ASSIGN(const std::vector<AggregateChunk> chunks, round_->ReduceToMask());
  EXPECT_EQ(*chunks[0].payload, SelectMask(round_->grid(), RandomScores(500, 5), 250)[0]);
}

TEST_F(LocalRoundsTest, ATrialIsTheMeanOfItsMembersAndARestrictedRoundToo) {
  spec_.set_uniform_weights(true);
  Open(3);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    TALLY_ASSERT_OK(ContributeConstant(worker, 1, static_cast<float>(1 << worker)));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const AggregateChunk trial, round_->ReduceTrial(0, {0, 2}));
  EXPECT_EQ(Unpacked(0, trial)[0], 2.5f);
  EXPECT_EQ(trial.voters, 2u);
  round_->RestrictTo({1, 2});
  for (const uint32_t index : round_->ClaimRest()) {
    TALLY_ASSERT_OK_AND_ASSIGN(AggregateChunk chunk, round_->Reduce(index));
    EXPECT_EQ(Unpacked(index, chunk)[0], 3.0f);
    round_->SetAggregate(index, std::move(chunk));
  }
  const v1::RoundClosed closed = round_->Closed();
  EXPECT_THAT(closed.voters(), ElementsAre(1, 2));
}

size_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

// 32 uploads of 8 MB: what the server holds at once does not grow with the uploads.
TEST_F(LocalRoundsTest, MemoryIsThatOfAFewChunksHoweverManyContribute) {
  LayoutBuilder builder;
  builder.AddBlock("all").AddTensor("w", {2 << 20});
  layout_ = *builder.Build();
  spec_.set_chunk_elements(1 << 18);
  Open(32);
  const size_t before = PeakBytes();
  for (uint32_t worker = 0; worker < 32; ++worker) TALLY_ASSERT_OK(ContributeConstant(worker, 1, 1.0f));
  for (const uint32_t index : round_->ClaimRest()) {
    TALLY_ASSERT_OK_AND_ASSIGN(AggregateChunk chunk, round_->Reduce(index));
    round_->SetAggregate(index, std::move(chunk));
  }
  EXPECT_LT(PeakBytes() - before, size_t{96} << 20);  // of 256 MiB; sanitizers keep freed memory a while
}

}  // namespace
}  // namespace tally::testing
