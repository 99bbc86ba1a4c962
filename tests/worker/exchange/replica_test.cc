#include "worker/exchange/replica.h"

#include <numeric>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status_matchers.h"
#include "common/reduction/majority/majority.h"
#include "common/update/apply_round.h"
#include "common/update/history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

Layout SmallLayout() {
  const std::vector<uint64_t> first = {10, 7};
  const std::vector<uint64_t> second = {3};
  return *LayoutBuilder()
              .AddBlock("stem")
              .AddTensor("stem.weight", first)
              .AddBlock("head")
              .AddTensor("head.bias", second)
              .Build();
}

v1::RoundSpec MajorityRound(uint64_t round) {
  v1::RoundSpec spec;
  spec.set_round(round);
  spec.set_step(round);
  spec.set_reduction("majority");
  spec.set_update_rule("sign_step");
  spec.set_learning_rate(0.5);
  spec.set_chunk_elements(64);
  return spec;
}

Payload PayloadOf(const Bytes& bytes) { return Payload({OwnedSlice(bytes)}); }

// A round of one voter with the given values' signs, as the server would send it.
struct SentRound {
  v1::RoundSpec spec;
  std::vector<Bytes> chunks;
  v1::RoundClosed closed;
};

SentRound OneVoter(const Layout& layout, uint64_t round, float value) {
  SentRound sent;
  sent.spec = MajorityRound(round);
  const ChunkGrid grid = *GridForRound(layout, sent.spec);
  const Reduction* majority = *FindReduction("majority");
  Digester digester;
  for (const Chunk& chunk : grid.chunks()) {
    const std::vector<float> values(chunk.count, value);
    const Bytes vote = majority->Pack({.first_lane = chunk.first_lane}, values, 0);
    auto accumulator = majority->NewAccumulator({chunk.first_lane, chunk.count, 0, false});
    EXPECT_TRUE(accumulator->Add({{vote, 1}}).ok());
    sent.chunks.push_back(*accumulator->Finish());
    digester.AddUint64(Digest64(sent.chunks.back().data(), sent.chunks.back().size()));
  }
  sent.closed.set_round(round);
  sent.closed.set_chunks(grid.size());
  sent.closed.set_digest(digester.Finish());
  return sent;
}

v1::ChunkHeader HeaderOf(const SentRound& sent, uint32_t index) {
  v1::ChunkHeader header;
  header.set_kind(v1::ROUND);
  header.set_round(sent.spec.round());
  header.set_index(index);
  header.set_digest(Digest64(sent.chunks[index].data(), sent.chunks[index].size()));
  return header;
}

class ReplicaTest : public ::testing::Test {
 protected:
  ReplicaTest() : parameters_(layout_.size(), 1.0f), replica_(layout_, absl::MakeSpan(parameters_)) {
    replica_.AdoptBase();
  }
  // With the history that follows this replica's, unless the round has one.
  absl::Status Receive(SentRound sent) {
    if (sent.closed.history() == 0) {
      sent.closed.set_history(RoundHistory(replica_.history(), sent.closed));
    }
    if (absl::Status begun = replica_.BeginRound(sent.spec); !begun.ok()) return begun;
    for (uint32_t i = 0; i < sent.chunks.size(); ++i) {
      absl::Status taken = replica_.TakeChunk(HeaderOf(sent, i), PayloadOf(sent.chunks[i]));
      if (!taken.ok()) return taken;
    }
    return replica_.CloseRound(sent.closed);
  }

  const Layout layout_ = SmallLayout();
  std::vector<float> parameters_;
  Replica replica_;
};

TEST_F(ReplicaTest, AppliesRoundAfterRound) {
  TALLY_ASSERT_OK(Receive(OneVoter(layout_, 1, +1)));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 0.5f));
  TALLY_ASSERT_OK(Receive(OneVoter(layout_, 2, -1)));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.0f));
  EXPECT_EQ(replica_.round(), 2u);
}

TEST_F(ReplicaTest, NothingIsAppliedBeforeTheRoundIsClosed) {
  const SentRound sent = OneVoter(layout_, 1, +1);
  TALLY_ASSERT_OK(replica_.BeginRound(sent.spec));
  for (uint32_t i = 0; i < sent.chunks.size(); ++i) {
    TALLY_ASSERT_OK(replica_.TakeChunk(HeaderOf(sent, i), PayloadOf(sent.chunks[i])));
  }
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.0f));
  // The server crashed and decides the round anew, the other way round.
  TALLY_ASSERT_OK(Receive(OneVoter(layout_, 1, -1)));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.5f));
}

TEST_F(ReplicaTest, MissingChunkLeavesTheParametersAlone) {
  const SentRound sent = OneVoter(layout_, 1, +1);
  TALLY_ASSERT_OK(replica_.BeginRound(sent.spec));
  TALLY_ASSERT_OK(replica_.TakeChunk(HeaderOf(sent, 0), PayloadOf(sent.chunks[0])));
  EXPECT_THAT(replica_.CloseRound(sent.closed),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 1 is missing")));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.0f));
  EXPECT_EQ(replica_.round(), 0u);
}

TEST_F(ReplicaTest, DamagedChunkIsNamed) {
  const SentRound sent = OneVoter(layout_, 1, +1);
  TALLY_ASSERT_OK(replica_.BeginRound(sent.spec));
  Bytes damaged = sent.chunks[1];
  damaged[8] ^= 1;
  EXPECT_THAT(replica_.TakeChunk(HeaderOf(sent, 1), PayloadOf(damaged)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("chunk 1 of round 1: digest")));
}

TEST_F(ReplicaTest, AnotherAggregateThanTheServersIsRefused) {
  SentRound sent = OneVoter(layout_, 1, +1);
  sent.closed.set_digest(sent.closed.digest() ^ 1);
  EXPECT_THAT(Receive(sent), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not the server's")));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.0f));
}

TEST_F(ReplicaTest, RoundsMustFollowOneAnother) {
  EXPECT_THAT(replica_.BeginRound(MajorityRound(2)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("the worker is at round 0")));
  replica_.Invalidate();
  EXPECT_THAT(replica_.BeginRound(MajorityRound(1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("at no round")));
}

TEST_F(ReplicaTest, KeepsTheHistoryOfItsRounds) {
  EXPECT_EQ(replica_.history(), 0u);
  SentRound first = OneVoter(layout_, 1, +1);
  first.closed.set_history(RoundHistory(0, first.closed));
  TALLY_ASSERT_OK(Receive(first));
  EXPECT_EQ(replica_.history(), first.closed.history());
  SentRound second = OneVoter(layout_, 2, -1);
  second.closed.set_history(RoundHistory(first.closed.history(), second.closed));
  TALLY_ASSERT_OK(Receive(second));
  EXPECT_EQ(replica_.history(), second.closed.history());
}

TEST_F(ReplicaTest, AnotherHistoryThanTheServersLeavesTheParametersAlone) {
  SentRound sent = OneVoter(layout_, 1, +1);
  sent.closed.set_history(RoundHistory(/*previous=*/77, sent.closed));
  EXPECT_THAT(Receive(sent), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("history: expected")));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), 1.0f));
  EXPECT_EQ(replica_.round(), 0u);
  EXPECT_EQ(replica_.history(), 0u);
}

TEST_F(ReplicaTest, HoldsClosedRoundsUntilTheyAreSynced) {
  EXPECT_EQ(replica_.held().first(), 0u);
  for (uint64_t round = 1; round <= 3; ++round) {
    TALLY_ASSERT_OK(Receive(OneVoter(layout_, round, +1)));
  }
  EXPECT_EQ(replica_.held().first(), 1u);
  replica_.DropHeld(2);
  EXPECT_EQ(replica_.held().first(), 3u);
  std::vector<v1::WorkerFrame> frames;
  TALLY_ASSERT_OK(replica_.held().HandBack(
      3, 3, [&](const v1::WorkerFrame& frame, absl::Span<const grpc::Slice>) {
        frames.push_back(frame);
      }));
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(frames[1].chunk().digest(), HeaderOf(OneVoter(layout_, 3, +1), 0).digest());
  replica_.Invalidate();
  EXPECT_EQ(replica_.held().first(), 0u);
}

TEST_F(ReplicaTest, AChunkAfterTheRoundIsClosedIsNotExpected) {
  const SentRound sent = OneVoter(layout_, 1, +1);
  TALLY_ASSERT_OK(Receive(sent));
  EXPECT_THAT(replica_.TakeChunk(HeaderOf(sent, 0), PayloadOf(sent.chunks[0])),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("chunk 0 of round 1")));
}

TEST_F(ReplicaTest, AdoptsWhatACheckpointHolds) {
  EXPECT_THAT(replica_.Adopt(5, 99, {std::vector<float>(3)}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("update state: expected 73")));
  EXPECT_EQ(replica_.round(), 0u);
  TALLY_ASSERT_OK(replica_.Adopt(5, 99, {std::vector<float>(layout_.size(), 2.0f)}));
  EXPECT_EQ(replica_.round(), 5u);
  EXPECT_EQ(replica_.history(), 99u);
  EXPECT_EQ(replica_.state()[0][0], 2.0f);
  EXPECT_EQ(replica_.held().first(), 0u);
}

TEST_F(ReplicaTest, ReportsTheDigestOfTheWholeAndOfEachBlock) {
  const v1::ParametersDigest before = replica_.DigestsOfParameters();
  EXPECT_EQ(before.digest(), replica_.digest());
  ASSERT_EQ(before.blocks_size(), 2);
  parameters_[70] = 3.0f;  // the first of the second block
  const v1::ParametersDigest after = replica_.DigestsOfParameters();
  EXPECT_NE(after.digest(), before.digest());
  EXPECT_EQ(after.blocks(0), before.blocks(0));
  EXPECT_NE(after.blocks(1), before.blocks(1));
}

class SnapshotTest : public ReplicaTest {
 protected:
  SnapshotTest() : values_(layout_.size()) {
    std::iota(values_.begin(), values_.end(), 1.0f);
    begin_.set_round(7);
    begin_.set_history(1234);
    end_.set_round(7);
    end_.set_chunks(DenseGrid(layout_).size());
    end_.set_parameters_digest(ParametersDigest(layout_, values_));
  }
  absl::Status SendChunk(uint32_t index) {
    const Chunk chunk = DenseGrid(layout_)[index];
    const auto* bytes = reinterpret_cast<const unsigned char*>(values_.data() + chunk.first);
    const Bytes payload(bytes, bytes + chunk.count * sizeof(float));
    v1::ChunkHeader header;
    header.set_kind(v1::PARAMETERS);
    header.set_index(index);
    header.set_digest(Digest64(payload.data(), payload.size()));
    return replica_.TakeChunk(header, PayloadOf(payload));
  }
  std::vector<float> values_;
  v1::SnapshotBegin begin_;
  v1::SnapshotEnd end_;
};

TEST_F(SnapshotTest, ReplacesTheParametersAndTheRound) {
  TALLY_ASSERT_OK(replica_.BeginSnapshot(begin_));
  EXPECT_FALSE(replica_.round().has_value());
  for (uint32_t i = 0; i < end_.chunks(); ++i) TALLY_ASSERT_OK(SendChunk(i));
  TALLY_ASSERT_OK(replica_.EndSnapshot(end_));
  EXPECT_EQ(parameters_, values_);
  EXPECT_EQ(replica_.round(), 7u);
  EXPECT_EQ(replica_.history(), 1234u);
  EXPECT_EQ(replica_.digest(), end_.parameters_digest());
}

TEST_F(SnapshotTest, CutShortIsNotASnapshot) {
  TALLY_ASSERT_OK(replica_.BeginSnapshot(begin_));
  TALLY_ASSERT_OK(SendChunk(0));
  EXPECT_THAT(replica_.EndSnapshot(end_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("expected 2 chunks, found 1")));
  EXPECT_FALSE(replica_.round().has_value());
}

TEST_F(SnapshotTest, OtherParametersThanTheServersAreRefused) {
  TALLY_ASSERT_OK(replica_.BeginSnapshot(begin_));
  for (uint32_t i = 0; i < end_.chunks(); ++i) TALLY_ASSERT_OK(SendChunk(i));
  end_.set_parameters_digest(end_.parameters_digest() + 1);
  EXPECT_THAT(replica_.EndSnapshot(end_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("parameters digest")));
}

TEST_F(SnapshotTest, ChunkOutsideASnapshotIsRefused) {
  EXPECT_THAT(SendChunk(0), StatusIs(absl::StatusCode::kInternal, HasSubstr("not expected")));
}

// Rounds that closed while the worker was away, each in one frame.
class PastRoundsTest : public ReplicaTest {
 protected:
  static Bytes WholePayload(const SentRound& sent) {
    Bytes payload;
    const auto put = [&](uint64_t value) {
      for (int i = 0; i < 8; ++i) payload.push_back(static_cast<unsigned char>(value >> (8 * i)));
    };
    for (const Bytes& chunk : sent.chunks) {
      put(chunk.size());
      put(Digest64(chunk.data(), chunk.size()));
    }
    for (const Bytes& chunk : sent.chunks) payload.insert(payload.end(), chunk.begin(), chunk.end());
    return payload;
  }
  absl::Status ReceivePast(SentRound sent) {
    sent.closed.set_history(RoundHistory(replica_.history(), sent.closed));
    const absl::Status begun =
        replica_.BeginPastRound(sent.spec, PayloadOf(WholePayload(sent)));
    return begun.ok() ? replica_.CloseRound(sent.closed) : begun;
  }
  static float SignOf(uint64_t round) { return round % 3 == 0 ? -1.0f : 1.0f; }
};

TEST_F(PastRoundsTest, AnyNumberOfThemGivesWhatLiveRoundsGive) {
  for (const uint64_t count : {1, 2, 15, 16, 17, 40}) {
    std::vector<float> parameters(layout_.size(), 1.0f);
    Replica live(layout_, absl::MakeSpan(parameters));
    live.AdoptBase();
    replica_.AdoptBase();
    parameters_.assign(layout_.size(), 1.0f);
    for (uint64_t round = 1; round <= count; ++round) {
      SentRound sent = OneVoter(layout_, round, SignOf(round));
      TALLY_ASSERT_OK(ReceivePast(sent));
      sent.closed.set_history(RoundHistory(live.history(), sent.closed));
      TALLY_ASSERT_OK(live.BeginRound(sent.spec));
      for (uint32_t i = 0; i < sent.chunks.size(); ++i) {
        TALLY_ASSERT_OK(live.TakeChunk(HeaderOf(sent, i), PayloadOf(sent.chunks[i])));
      }
      TALLY_ASSERT_OK(live.CloseRound(sent.closed));
    }
    TALLY_ASSERT_OK(replica_.Settle());
    EXPECT_EQ(parameters_, parameters) << count;
    EXPECT_EQ(replica_.round(), live.round());
    EXPECT_EQ(replica_.history(), live.history());
    EXPECT_EQ(replica_.held().first(), live.held().first()) << "held for a hand-back too";
  }
}

TEST_F(PastRoundsTest, AreAllAppliedWhenALiveRoundBegins) {
  for (uint64_t round = 1; round <= 3; ++round) TALLY_ASSERT_OK(ReceivePast(OneVoter(layout_, round, 1)));
  EXPECT_EQ(replica_.round(), 3u);
  TALLY_ASSERT_OK(replica_.BeginRound(MajorityRound(4)));
  EXPECT_EQ(parameters_, std::vector<float>(layout_.size(), -0.5f));
}

TEST_F(PastRoundsTest, AnotherGridBeginsAnotherPass) {
  TALLY_ASSERT_OK(ReceivePast(OneVoter(layout_, 1, 1)));
  SentRound frozen = OneVoter(layout_, 2, 1);
  frozen.spec.set_first_active_block(1);
  frozen.chunks = {frozen.chunks.back()};  // the head's alone
  frozen.closed.set_chunks(1);
  Digester digester;
  digester.AddUint64(Digest64(frozen.chunks[0].data(), frozen.chunks[0].size()));
  frozen.closed.set_digest(digester.Finish());
  TALLY_ASSERT_OK(ReceivePast(frozen));
  TALLY_ASSERT_OK(replica_.Settle());
  EXPECT_EQ(parameters_.front(), 0.5f);
  EXPECT_EQ(parameters_.back(), 0.0f);
}

TEST_F(PastRoundsTest, ChunksMayAlsoComeOneByOne) {
  SentRound sent = OneVoter(layout_, 1, 1);
  sent.closed.set_history(RoundHistory(0, sent.closed));
  TALLY_ASSERT_OK(replica_.BeginPastRound(sent.spec, Payload()));
  for (uint32_t i = 0; i < sent.chunks.size(); ++i) {
    TALLY_ASSERT_OK(replica_.TakeChunk(HeaderOf(sent, i), PayloadOf(sent.chunks[i])));
  }
  TALLY_ASSERT_OK(replica_.CloseRound(sent.closed));
  TALLY_ASSERT_OK(replica_.Settle());
  EXPECT_EQ(parameters_.front(), 0.5f);
}

TEST_F(PastRoundsTest, EveryDamageOfTheirPayloadIsNamed) {
  const SentRound sent = OneVoter(layout_, 1, 1);
  const Bytes good = WholePayload(sent);
  struct Case {
    std::string says;
    Bytes payload;
  };
  std::vector<Case> cases;
  cases.push_back({"entries are cut short", Bytes(good.begin(), good.begin() + 20)});
  cases.push_back({"left", Bytes(good.begin(), good.end() - 1)});
  cases.push_back({"1 bytes belong to no chunk", good});
  cases.back().payload.push_back(0);
  cases.push_back({"chunk 0: digest", good});
  cases.back().payload[sent.chunks.size() * 16 + 8] ^= 1;
  cases.push_back({"chunk 1: digest", good});
  cases.back().payload[16 + 8] ^= 1;
  cases.push_back({"bytes announced", good});
  cases.back().payload[7] = 0xFF;
  for (const Case& c : cases) {
    replica_.AdoptBase();
    EXPECT_THAT(replica_.BeginPastRound(sent.spec, PayloadOf(c.payload)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(c.says)));
    EXPECT_EQ(parameters_.front(), 1.0f);
  }
}

TEST_F(PastRoundsTest, OneThatCannotBeAppliedLeavesTheReplicaWhereItWas) {
  TALLY_ASSERT_OK(ReceivePast(OneVoter(layout_, 1, 1)));
  TALLY_ASSERT_OK(replica_.Settle());
  const uint64_t history = replica_.history();
  TALLY_ASSERT_OK(ReceivePast(OneVoter(layout_, 2, 1)));
  SentRound wrong = OneVoter(layout_, 3, 1);
  wrong.spec.set_update_rule("lion_step");  // takes no votes
  TALLY_ASSERT_OK(ReceivePast(wrong));
  EXPECT_FALSE(replica_.Settle().ok());
  EXPECT_EQ(replica_.round(), 1u);
  EXPECT_EQ(replica_.history(), history);
  EXPECT_EQ(parameters_.front(), 0.5f);
}

}  // namespace
}  // namespace tally
