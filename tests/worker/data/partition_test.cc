#include "worker/data/partition.h"

#include <algorithm>
#include <vector>

#include "common/base/status_matchers.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::tally::testing::IsOk;
using ::tally::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Partition, DisjointCoveringAndEven) {
  for (uint64_t rows = 1; rows <= 40; ++rows) {
    for (uint32_t n = 1; n <= rows; ++n) {
      std::vector<int> seen(rows, 0);
      uint64_t least = rows, most = 0;
      for (uint32_t i = 0; i < n; ++i) {
        TALLY_ASSERT_OK_AND_ASSIGN(const RowSet set, PartitionRows(rows, i, n, "x"));
        for (uint64_t k = 0; k < set.count; ++k) ++seen.at(set.first + k * set.step);
        least = std::min(least, set.count);
        most = std::max(most, set.count);
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<long>(rows));
      EXPECT_LE(most - least, 1u);
    }
  }
}

TEST(Partition, MorePartitionsThanRowsIsRefusedByName) {
  EXPECT_THAT(PartitionRows(3, 0, 4, "training split"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("training split"), HasSubstr("3 rows for 4 partitions"))));
  EXPECT_THAT(PartitionRows(0, 0, 1, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 rows")));
}

TEST(Partition, IndexOutOfRange) {
  EXPECT_THAT(PartitionRows(9, 3, 3, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 3, found 3")));
  EXPECT_THAT(PartitionRows(9, 0, 0, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("below 0")));
}

TEST(Partition, SharesMayBeEmpty) {
  EXPECT_EQ(ShareOfRows(2, 1, 4).count, 1u);
  EXPECT_EQ(ShareOfRows(2, 2, 4).count, 0u);
  EXPECT_EQ(ShareOfRows(0, 0, 1).count, 0u);
}

}  // namespace
}  // namespace tally
