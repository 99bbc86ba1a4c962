#include "server/round/open_round.h"

#include <cmath>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/digest.h"
#include "common/base/random.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Five chunks of up to 128 elements: 3 of the first block, 2 of the second.
class OpenRoundTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Open(const std::string& reduction, uint32_t workers, uint32_t quorum) {
    LayoutBuilder builder;
    builder.AddBlock("a").AddTensor("a.weight", {300});
    builder.AddBlock("b").AddTensor("b.weight", {200});
    spec_.set_round(7);
    spec_.set_reduction(reduction);
    spec_.set_chunk_elements(128);
    spec_.set_tie_key(99);
    round_ = std::make_unique<OpenRound>(spec_, *GridForRound(*builder.Build(), spec_),
                                         *FindReduction(reduction), quorum, absl::ZeroDuration());
    ASSERT_EQ(round_->grid().size(), 5);
    for (uint32_t worker = 0; worker < workers; ++worker) round_->Await(worker);
  }
  Bytes PayloadOf(uint32_t worker, uint32_t index, uint64_t salt = 0) const {
    const Chunk& chunk = round_->grid()[index];
    std::vector<float> values(chunk.count);
    const uint64_t key = StreamKey(salt, worker, index, RandomPurpose::kAugment);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int64_t>(RandomWord(key, i)) * 0x1p-63);
    }
    return round_->reduction().Pack({.first_lane = chunk.first_lane}, values, key);
  }
  // True: reduce it now.
  bool Send(uint32_t worker, uint32_t index, uint64_t salt = 0) {
    const Bytes bytes = PayloadOf(worker, index, salt);
    const auto booking =
        round_->Book(worker, index, Digest64(bytes.data(), bytes.size()), bytes.size());
    EXPECT_THAT(booking, IsOk());
    if (!booking->fresh) return false;
    EXPECT_THAT(round_->Stage(worker, booking->attempt, index, Digest64(bytes.data(), bytes.size()), bytes), IsOk());
    return round_->Arrived(worker, booking->attempt, index);
  }
  v1::ContributionEnd EndOf(uint32_t worker, uint64_t salt = 0) const {
    Digester digester;
    for (uint32_t i = 0; i < 5; ++i) {
      const Bytes bytes = PayloadOf(worker, i, salt);
      digester.AddUint64(Digest64(bytes.data(), bytes.size()));
    }
    v1::ContributionEnd end;
    end.set_round(7);
    end.set_chunks(5);
    end.set_digest(digester.Finish());
    end.set_samples(10 + worker);
    end.set_loss_sum(1);
    return end;
  }
  void SendAll(uint32_t worker) {
    for (uint32_t i = 0; i < 5; ++i) {
      if (Send(worker, i)) Reduce(i);
    }
    EXPECT_THAT(round_->End(worker, EndOf(worker)), IsOk());
  }
  void Reduce(uint32_t index) {
    auto chunk = round_->Reduce(index);
    ASSERT_THAT(chunk, IsOk());
    round_->SetAggregate(index, *std::move(chunk));
  }
  void Close() {
    for (const uint32_t index : round_->ClaimRest()) Reduce(index);
    ASSERT_TRUE(round_->AllReduced());
  }
  Bytes Expected(uint32_t index, const std::vector<uint32_t>& workers) const {
    std::vector<Bytes> payloads;
    for (const uint32_t worker : workers) payloads.push_back(PayloadOf(worker, index));
    std::vector<Contribution> contributions;
    for (size_t i = 0; i < workers.size(); ++i) {
      const double weight = round_->reduction().counts_whole() ? 10.0 + workers[i] : 1.0;
      contributions.push_back({payloads[i], weight});
    }
    const Chunk& chunk = round_->grid()[index];
    return *round_->reduction().Reduce({chunk.first_lane, chunk.count, 99, false}, contributions);
  }
  void ExpectResultOf(const std::vector<uint32_t>& workers) {
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(*round_->aggregate()[i].payload, Expected(i, workers)) << "chunk " << i;
      EXPECT_EQ(round_->aggregate()[i].voters, workers.size());
    }
    EXPECT_THAT(round_->Closed().voters(), ::testing::ElementsAreArray(workers));
  }

  v1::RoundSpec spec_;
  std::unique_ptr<OpenRound> round_;
};

INSTANTIATE_TEST_SUITE_P(Reductions, OpenRoundTest,
                         ::testing::Values("majority", "sign_mean", "dense_mean"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OpenRoundTest, ResultIsTheReductionsInAnyOrderOfArrival) {
  Open(GetParam(), 3, 3);
  for (const uint32_t worker : {2, 0, 1}) SendAll(worker);
  EXPECT_EQ(round_->awaited(), 0);
  Close();
  ExpectResultOf({0, 1, 2});
  EXPECT_EQ(round_->Closed().samples(), 33);
  EXPECT_EQ(round_->Closed().loss_sum(), 3);
}

TEST_P(OpenRoundTest, RepeatedChunkCountsOnce) {
  Open(GetParam(), 2, 2);
  Send(0, 3);
  Send(0, 3);
  EXPECT_EQ(round_->part(0).chunks, 1);
  EXPECT_EQ(round_->part(0).bytes, PayloadOf(0, 3).size());
  SendAll(1);
  SendAll(0);
  Close();
  ExpectResultOf({0, 1});
}

TEST_P(OpenRoundTest, SameChunkWithOtherBytesIsRefused) {
  Open(GetParam(), 1, 1);
  Send(0, 3);
  EXPECT_THAT(round_->Book(0, 3, 12345, 8),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 3: sent before")));
  EXPECT_THAT(round_->Book(0, 5, 1, 8),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 5")));
}

TEST_P(OpenRoundTest, EndThatDoesNotFitIsRefusedAndNothingCounts) {
  Open(GetParam(), 1, 1);
  for (uint32_t i = 0; i < 3; ++i) Send(0, i);
  EXPECT_THAT(round_->End(0, EndOf(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("received 3")));
  for (uint32_t i = 3; i < 5; ++i) Send(0, i);
  v1::ContributionEnd wrong = EndOf(0);
  wrong.set_chunks(4);
  EXPECT_THAT(round_->End(0, wrong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("announced 4")));
  wrong = EndOf(0);
  wrong.set_digest(1);
  EXPECT_THAT(round_->End(0, wrong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("digest")));
  for (const uint64_t samples : {uint64_t{1} << 63, (uint64_t{1} << 53) + 2}) {
    wrong = EndOf(0);
    wrong.set_samples(samples);
    EXPECT_THAT(round_->End(0, wrong),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("samples")));
  }
  wrong = EndOf(0);
  wrong.set_loss_sum(std::nan(""));
  EXPECT_THAT(round_->End(0, wrong),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loss nan")));
  EXPECT_EQ(round_->contributed(), 0);
  EXPECT_EQ(round_->awaited(), 1);
  EXPECT_THAT(round_->End(0, EndOf(0)), IsOk());
}

TEST_P(OpenRoundTest, WorkerThatIsLeftOutDoesNotCount) {
  Open(GetParam(), 3, 2);
  for (uint32_t i = 0; i < 5; ++i) Send(1, i);
  round_->Abstain(1);
  SendAll(0);
  SendAll(2);
  Close();
  ExpectResultOf({0, 2});
}

TEST_P(OpenRoundTest, WorkerThatLeftWithHalfAContributionDoesNotCount) {
  Open(GetParam(), 3, 2);
  for (uint32_t i = 0; i < 3; ++i) Send(1, i);
  round_->NoLongerAwait(1);
  SendAll(0);
  SendAll(2);
  Close();
  ExpectResultOf({0, 2});
}

TEST_P(OpenRoundTest, WorkerThatComesBackMaySendOtherBytes) {
  Open(GetParam(), 2, 2);
  for (uint32_t i = 0; i < 3; ++i) Send(1, i, /*salt=*/5);
  round_->NoLongerAwait(1);
  round_->Await(1);
  SendAll(1);
  SendAll(0);
  Close();
  ExpectResultOf({0, 1});
}

TEST_P(OpenRoundTest, ContributionStaysWhenItsWorkerLeaves) {
  Open(GetParam(), 2, 2);
  SendAll(1);
  round_->NoLongerAwait(1);
  round_->Await(1);
  EXPECT_FALSE(round_->IsAwaited(1));
  SendAll(0);
  Close();
  ExpectResultOf({0, 1});
}

TEST_F(OpenRoundTest, ChunkIsReducedWhenAllAwaitedHaveSentItAndTheQuorumIsThere) {
  Open("majority", 2, 2);
  EXPECT_FALSE(Send(0, 0));
  EXPECT_TRUE(Send(1, 0));
  Open("majority", 1, 2);
  EXPECT_FALSE(Send(0, 0)) << "below the quorum";
  round_->Await(1);
  EXPECT_TRUE(Send(1, 0));
}

TEST_F(OpenRoundTest, ChunksThatOnlyWaitedForTheOneThatLeftAreClaimed) {
  Open("majority", 3, 2);
  Send(0, 0);
  Send(0, 1);
  Send(1, 1);
  EXPECT_TRUE(round_->ClaimComplete().empty());
  round_->NoLongerAwait(2);
  EXPECT_THAT(round_->ClaimComplete(), ElementsAre(1));
  EXPECT_TRUE(round_->ClaimComplete().empty()) << "claimed once";
}

TEST_F(OpenRoundTest, PayloadThatComesAfterTheReductionIsDropped) {
  Open("majority", 2, 1);
  const Bytes late = PayloadOf(1, 0);
  const auto booking = round_->Book(1, 0, Digest64(late.data(), late.size()), late.size());
  SendAll(0);
  Close();
  EXPECT_THAT(round_->Stage(1, booking->attempt, 0, Digest64(late.data(), late.size()), late), IsOk());
  EXPECT_FALSE(round_->Arrived(1, booking->attempt, 0));
  ExpectResultOf({0});
}

TEST_F(OpenRoundTest, WholeReductionIsNeverReducedBeforeTheRoundCloses) {
  Open("dense_mean", 2, 2);
  EXPECT_FALSE(Send(0, 0));
  EXPECT_FALSE(Send(1, 0));
  round_->NoLongerAwait(1);
  EXPECT_TRUE(round_->ClaimComplete().empty());
}

TEST_F(OpenRoundTest, MoreVotersThanAreKeptAtOnce) {
  Open("majority", 40, 40);
  for (uint32_t worker = 0; worker < 40; ++worker) SendAll(39 - worker);
  std::vector<uint32_t> all(40);
  for (uint32_t i = 0; i < 40; ++i) all[i] = i;
  Close();
  ExpectResultOf(all);
}

// As the service does it: bookkeeping under one lock, payloads outside.
TEST_P(OpenRoundTest, FourThreadsStageAndReduce) {
  constexpr uint32_t kWorkers = 20;
  Open(GetParam(), kWorkers, kWorkers);
  absl::Mutex mutex;
  const auto reduce = [&](const std::vector<uint32_t>& claimed) {
    for (const uint32_t index : claimed) {
      auto chunk = round_->Reduce(index);
      absl::MutexLock lock(&mutex);
      EXPECT_THAT(chunk, IsOk());
      if (chunk.ok()) round_->SetAggregate(index, *std::move(chunk));
    }
  };
  const auto send = [&](uint32_t worker) {
    for (uint32_t i = 0; i < 5; ++i) {
      const Bytes bytes = PayloadOf(worker, i);
      Booking booking;
      {
        absl::MutexLock lock(&mutex);
        booking = *round_->Book(worker, i, Digest64(bytes.data(), bytes.size()), bytes.size());
      }
      EXPECT_THAT(round_->Stage(worker, booking.attempt, i, Digest64(bytes.data(), bytes.size()), bytes), IsOk());
      std::vector<uint32_t> claimed;
      {
        absl::MutexLock lock(&mutex);
        if (round_->Arrived(worker, booking.attempt, i)) claimed.push_back(i);
      }
      reduce(claimed);
    }
    std::vector<uint32_t> claimed;
    {
      absl::MutexLock lock(&mutex);
      EXPECT_THAT(round_->End(worker, EndOf(worker)), IsOk());
      if (round_->awaited() == 0) claimed = round_->ClaimRest();
    }
    reduce(claimed);
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t worker = t; worker < kWorkers; worker += 4) send(worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(round_->AllReduced());
  std::vector<uint32_t> all(kWorkers);
  for (uint32_t i = 0; i < kWorkers; ++i) all[i] = i;
  ExpectResultOf(all);
}

}  // namespace
}  // namespace tally::testing
