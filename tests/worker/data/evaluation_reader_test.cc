#include "worker/data/evaluation_reader.h"

#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/data/counting_source.h"

namespace tally {
namespace {

using ::tally::testing::CountingSource;
using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::vector<uint32_t>> Batches(const DataSource& source, uint32_t index,
                                           uint32_t shares, uint32_t batch_size) {
  auto reader = EvaluationReader::Open(source, index, shares, batch_size);
  EXPECT_THAT(reader, IsOk());
  std::vector<std::vector<uint32_t>> batches;
  for (;;) {
    auto batch = (*reader)->Next();
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) return batches;
    EXPECT_EQ((*batch)->elements.size(), (*batch)->size() * sizeof(float));
    batches.push_back((*batch)->labels);
  }
}

TEST(EvaluationReader, TheLastBatchMayBeShort) {
  EXPECT_THAT(Batches(CountingSource(1, 5), 0, 1, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(EvaluationReader, SharesCoverTheSplit) {
  EXPECT_THAT(Batches(CountingSource(1, 5), 0, 2, 9), ElementsAre(ElementsAre(0, 2, 4)));
  EXPECT_THAT(Batches(CountingSource(1, 5), 1, 2, 9), ElementsAre(ElementsAre(1, 3)));
}

TEST(EvaluationReader, EmptyShareAndAbsentSplit) {
  EXPECT_THAT(Batches(CountingSource(1, 1), 1, 2, 9), ElementsAre());
  EXPECT_THAT(Batches(CountingSource(1, 0), 0, 1, 9), ElementsAre());
}

TEST(EvaluationReader, BadArgumentsAreRefused) {
  const CountingSource source(1, 5);
  EXPECT_THAT(EvaluationReader::Open(source, 0, 1, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch size")));
  EXPECT_THAT(EvaluationReader::Open(source, 2, 2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 2, found 2")));
}

}  // namespace
}  // namespace tally
