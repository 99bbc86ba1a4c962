#include "common/spec/defaults.h"

#include "common/base/status_matchers.h"
#include "common/spec/check.h"
#include "tests/common/spec/valid_spec.h"

namespace tally {
namespace {

TEST(WithDefaults, QuorumFollowsCountAndMinimumFollowsQuorum) {
  v1::JobSpec spec;
  spec.mutable_workers()->set_count(5);
  EXPECT_EQ(WithDefaults(spec).workers().quorum(), 5u);
  EXPECT_EQ(WithDefaults(spec).workers().minimum(), 5u);
  EXPECT_EQ(WithDefaults(spec).workers().max(), 5u);
  spec.mutable_workers()->set_quorum(3);
  EXPECT_EQ(WithDefaults(spec).workers().minimum(), 3u);
}

TEST(WithDefaults, LeavesWhatIsSet) {
  v1::JobSpec spec = testing::ValidSpec();
  spec.mutable_workers()->set_max(7);
  EXPECT_EQ(WithDefaults(spec).SerializeAsString(), spec.SerializeAsString());
}

TEST(WithDefaults, FillsOnlyWhatTheMethodHas) {
  for (const char* name : {"distributed_lion", "global_lion", "global_adamw"}) {
    v1::JobSpec spec = testing::ValidSpec();
    spec.mutable_method()->clear_aggregation();
    spec.mutable_method()->clear_ties();
    spec.mutable_method()->set_name(name);
    spec.mutable_learning_rate()->clear_schedule();
    spec.clear_digest_every();
    TALLY_EXPECT_OK(CheckJobSpec(WithDefaults(spec))) << name;
  }
}

TEST(WithDefaults, AverageHasNoTies) {
  v1::JobSpec spec = testing::ValidSpec();
  spec.mutable_method()->set_aggregation("average");
  spec.mutable_method()->clear_ties();
  EXPECT_EQ(WithDefaults(spec).method().ties(), "");
}

}  // namespace
}  // namespace tally
