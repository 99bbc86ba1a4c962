#include "worker/data/batch_stream.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/data/counting_source.h"
#include "worker/data/partition.h"
#include "worker/data/shuffled_reader.h"

namespace tally {
namespace {

using ::tally::testing::CountingSource;
using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint32_t> Take(const DataSource& source, const BatchStreamOptions& options,
                           int batches) {
  auto stream = BatchStream::Start(source, options);
  EXPECT_THAT(stream, IsOk());
  std::vector<uint32_t> rows;
  for (int i = 0; i < batches; ++i) {
    auto batch = (*stream)->Next();
    EXPECT_THAT(batch, IsOk());
    EXPECT_EQ(batch->size(), options.batch_size);
    for (uint64_t k = 0; k < batch->size(); ++k) {
      float value;
      std::memcpy(&value, batch->elements.data() + k * sizeof(value), sizeof(value));
      EXPECT_EQ(value, static_cast<float>(batch->labels[k]));  // pixels and label stay together
      rows.push_back(batch->labels[k]);
    }
  }
  return rows;
}

TEST(BatchStream, StoredOrderCarriesOverTheEpochsEnd) {
  const CountingSource source(7);
  EXPECT_THAT(Take(source, {.batch_size = 3}, 5),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0));
}

TEST(BatchStream, OneRowAndFewerRowsThanABatch) {
  EXPECT_THAT(Take(CountingSource(1), {.batch_size = 3, .shuffle_buffer = 5}, 2),
              ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(Take(CountingSource(2), {.batch_size = 5}, 1), ElementsAre(0, 1, 0, 1, 0));
}

TEST(BatchStream, ReadsItsPartitionOnly) {
  const CountingSource source(10);
  EXPECT_THAT(Take(source, {.partition = 1, .partitions = 4, .batch_size = 3}, 2),
              ElementsAre(1, 5, 9, 1, 5, 9));
}

TEST(BatchStream, HeldOutRowsNeverCome) {
  const CountingSource source(20);
  const BatchStreamOptions options = {
      .partition = 1, .partitions = 2, .batch_size = 7, .hold_out_every = 3};
  // Of rows 1, 3, ..., 19 each third (5, 11, 17) is held out.
  EXPECT_THAT(Take(source, options, 2), ElementsAre(1, 3, 7, 9, 13, 15, 19, 1, 3, 7, 9, 13, 15, 19));
  const RowSet held = HeldOutRows(ShareOfRows(20, 1, 2), 3);
  EXPECT_EQ(held.first, 5u);
  EXPECT_EQ(held.step, 6u);
  EXPECT_EQ(held.count, 3u);
}

TEST(BatchStream, HoldingOutGoesOnWhereItStopped) {
  const CountingSource source(20);
  BatchStreamOptions options = {.batch_size = 3, .hold_out_every = 4, .shuffle_buffer = 6, .seed = 5};
  const std::vector<uint32_t> all = Take(source, options, 12);
  options.position = 7;
  EXPECT_EQ(Take(source, options, 5), std::vector<uint32_t>(all.begin() + 21, all.end()));
}

TEST(BatchStream, EachRowOnceAnEpochWhateverTheBuffer) {
  const CountingSource source(50);
  for (const uint32_t buffer : {0u, 1u, 7u, 49u, 50u, 1000u}) {
    const auto rows = Take(source, {.batch_size = 10, .shuffle_buffer = buffer, .seed = 3}, 15);
    for (int epoch = 0; epoch < 3; ++epoch) {
      const std::set<uint32_t> seen(rows.begin() + epoch * 50, rows.begin() + epoch * 50 + 50);
      EXPECT_EQ(seen.size(), 50u) << "buffer " << buffer << " epoch " << epoch;
    }
  }
}

TEST(BatchStream, OrderIsAFunctionOfSeedWorkerAndEpoch) {
  const CountingSource source(64);
  const BatchStreamOptions options{.batch_size = 64, .shuffle_buffer = 32, .seed = 5, .worker = 2};
  const auto first = Take(source, options, 2);
  EXPECT_EQ(first, Take(source, options, 2));
  BatchStreamOptions other = options;
  other.seed = 6;
  EXPECT_NE(first, Take(source, other, 2));
  other = options;
  other.worker = 3;
  EXPECT_NE(first, Take(source, other, 2));
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 64, first.begin() + 64));
}

TEST(BatchStream, GoesOnBehindAPosition) {
  const CountingSource source(23);
  BatchStreamOptions options{.batch_size = 4, .shuffle_buffer = 9, .seed = 1};
  const auto all = Take(source, options, 30);
  for (const uint64_t position : {1, 5, 6, 17, 29}) {
    options.position = position;
    const auto rest = Take(source, options, static_cast<int>(30 - position));
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + 4 * position)) << position;
  }
}

TEST(BatchStream, PositionCountsBatchesUsed) {
  const CountingSource source(9);
  TALLY_ASSERT_OK_AND_ASSIGN(auto stream,
                             BatchStream::Start(source, {.batch_size = 2, .position = 40}));
  EXPECT_EQ(stream->position(), 40u);
  TALLY_ASSERT_OK(stream->Next());
  TALLY_ASSERT_OK(stream->Next());
  EXPECT_EQ(stream->position(), 42u);
  EXPECT_EQ(stream->rows(), 9u);
}

TEST(BatchStream, ReadsAheadByNoMoreThanItsQueue) {
  const CountingSource source(100000);
  TALLY_ASSERT_OK_AND_ASSIGN(
      auto stream,
      BatchStream::Start(source, {.batch_size = 10, .shuffle_buffer = 100, .prefetch = 3}));
  for (int i = 0; i < 50; ++i) TALLY_ASSERT_OK(stream->Next());
  stream.reset();  // joins: nothing is read any more
  // 50 used, 3 queued, 1 in the making, and the buffer with the row that follows each draw.
  EXPECT_LE(source.rows_read(), 54u * 10 + 100);
}

TEST(BatchStream, AReadersErrorArrivesAndStays) {
  const CountingSource source(10, 0, 25);
  TALLY_ASSERT_OK_AND_ASSIGN(auto stream, BatchStream::Start(source, {.batch_size = 10}));
  TALLY_ASSERT_OK(stream->Next());
  TALLY_ASSERT_OK(stream->Next());
  EXPECT_THAT(stream->Next(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("disk gone")));
  EXPECT_THAT(stream->Next(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("disk gone")));
  EXPECT_EQ(stream->position(), 2u);
}

TEST(BatchStream, StopWakesAConsumer) {
  const CountingSource source(10);
  TALLY_ASSERT_OK_AND_ASSIGN(auto stream, BatchStream::Start(source, {.batch_size = 1}));
  std::thread stopper([&] { stream->Stop(); });
  absl::Status last;
  while (last.ok()) last = stream->Next().status();
  stopper.join();
  EXPECT_THAT(last, StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
}

TEST(BatchStream, BadOptionsAreRefused) {
  const CountingSource source(4);
  EXPECT_THAT(BatchStream::Start(source, {.batch_size = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch size")));
  EXPECT_THAT(BatchStream::Start(source, {.batch_size = 1, .prefetch = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prefetch")));
  EXPECT_THAT(BatchStream::Start(source, {.partitions = 5, .batch_size = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 rows for 5 partitions")));
}

TEST(ShuffledReader, MemoryIsTheBufferAndAnExampleMovesForwardLessThanIt) {
  const CountingSource source(1000);
  TALLY_ASSERT_OK_AND_ASSIGN(auto reader, source.Read(Split::kTrain, {0, 1, 1000}));
  ShuffledReader shuffled(std::move(reader), sizeof(float), 16, 77);
  float value;
  uint32_t label;
  for (uint32_t drawn = 0; drawn < 1000; ++drawn) {
    TALLY_ASSERT_OK_AND_ASSIGN(const bool more,
                               shuffled.Next(reinterpret_cast<char*>(&value), &label));
    ASSERT_TRUE(more);
    EXPECT_LT(label, drawn + 16);
    EXPECT_LE(shuffled.buffered_bytes(), 16 * (sizeof(float) + sizeof(uint32_t)));
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const bool more,
                             shuffled.Next(reinterpret_cast<char*>(&value), &label));
  EXPECT_FALSE(more);
}

TEST(ShuffledReader, AFullBufferDrawsEveryFirstRowEquallyOften) {
  const CountingSource source(4);
  std::map<uint32_t, int> firsts;
  for (uint64_t key = 0; key < 4000; ++key) {
    TALLY_ASSERT_OK_AND_ASSIGN(auto reader, source.Read(Split::kTrain, {0, 1, 4}));
    ShuffledReader shuffled(std::move(reader), sizeof(float), 4, key * 0x9E3779B97F4A7C15);
    float value;
    uint32_t label;
    TALLY_ASSERT_OK(shuffled.Next(reinterpret_cast<char*>(&value), &label));
    ++firsts[label];
  }
  for (uint32_t row = 0; row < 4; ++row) EXPECT_NEAR(firsts[row], 1000, 150) << row;
}

}  // namespace
}  // namespace tally
