#include "common/base/status_matchers.h"
#include "common/reduction/reduction.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(Registry, FindsEachByItsName) {
  for (absl::string_view name : ReductionNames()) EXPECT_EQ((*FindReduction(name))->name(), name);
  EXPECT_GE(ReductionNames().size(), 3u);
}

TEST(Registry, UnknownNameListsThoseThereAre) {
  EXPECT_THAT(FindReduction("median"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("'median'"), HasSubstr("majority, sign_mean, dense_mean"))));
}

}  // namespace
}  // namespace tally
