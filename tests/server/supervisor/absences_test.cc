#include "server/supervisor/absences.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AbsencesTest : public ::testing::Test {
 protected:
  std::vector<std::string> At(int second, const std::set<std::string>& there, int limit = 10) {
    const std::vector<std::string> members = {"a", "", "b"};
    return absences_.Overdue(
        members, [&](const std::string& name) { return there.contains(name); },
        absl::Seconds(second), absl::Seconds(limit));
  }
  Absences absences_;
};

TEST_F(AbsencesTest, OverdueAfterTheLimit) {
  EXPECT_THAT(At(100, {"a", "b"}), IsEmpty());
  EXPECT_THAT(At(101, {"a"}), IsEmpty());
  EXPECT_THAT(At(110, {"a"}), IsEmpty());
  EXPECT_THAT(At(111, {"a"}), ElementsAre("b"));
  EXPECT_THAT(At(112, {}), ElementsAre("b"));
}

TEST_F(AbsencesTest, ComingBackStartsAnew) {
  At(1, {"a"});
  At(9, {"a", "b"});
  EXPECT_THAT(At(10, {"a"}), IsEmpty());
  EXPECT_THAT(At(19, {"a"}), IsEmpty());
  EXPECT_THAT(At(20, {"a"}), ElementsAre("b"));
}

TEST_F(AbsencesTest, WithoutALimitNever) {
  At(1, {}, 0);
  EXPECT_THAT(At(1'000'000, {}, 0), IsEmpty());
}

TEST_F(AbsencesTest, VacantPlacesAreNobody) {
  At(1, {"a", "b"});
  EXPECT_THAT(At(1'000, {"a", "b"}), IsEmpty());
}

}  // namespace
}  // namespace tally
