#include "server/round/membership.h"

#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tally::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(20);

v1::Hello HelloOf(const std::string& name, const std::string& instance) {
  v1::Hello hello;
  hello.set_name(name);
  hello.set_instance(instance);
  return hello;
}

class MembershipTest : public ::testing::Test {
 protected:
  absl::Status Join(const std::string& instance, absl::Duration now) {
    return members_.Join(HelloOf("a", instance), "10.0.0.1:7", now, absl::UnixEpoch());
  }
  Membership members_{kLease};
};

TEST_F(MembershipTest, LeaseEndsWhenNothingIsHeard) {
  ASSERT_THAT(Join("1", absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(members_.Heard("a", "1", absl::Seconds(15)));
  EXPECT_TRUE(members_.Expire(absl::Seconds(34)).empty());
  const std::vector<LiveWorker> gone = members_.Expire(absl::Seconds(35));
  ASSERT_EQ(gone.size(), 1);
  EXPECT_EQ(gone[0].hello.name(), "a");
  EXPECT_FALSE(members_.Heard("a", "1", absl::Seconds(36)));
  EXPECT_EQ(members_.Find("a"), nullptr);
}

TEST_F(MembershipTest, SecondDaemonOfOneNameIsRefusedWhileTheFirstLives) {
  ASSERT_THAT(Join("1", absl::ZeroDuration()), IsOk());
  EXPECT_THAT(Join("2", absl::Seconds(19)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("10.0.0.1:7")));
  EXPECT_EQ(members_.Find("a")->hello.instance(), "1");
  EXPECT_THAT(Join("2", kLease), IsOk());
  EXPECT_EQ(members_.Find("a")->hello.instance(), "2");
}

TEST_F(MembershipTest, RestartedDaemonGetsInOnceTheFirstHasLeft) {
  ASSERT_THAT(Join("1", absl::ZeroDuration()), IsOk());
  EXPECT_FALSE(members_.Leave("a", "2"));
  EXPECT_TRUE(members_.Leave("a", "1"));
  EXPECT_THAT(Join("2", absl::Seconds(1)), IsOk());
  EXPECT_FALSE(members_.Heard("a", "1", absl::Seconds(2))) << "a heartbeat of the old instance";
  EXPECT_EQ(members_.Find("a")->last_heard, absl::Seconds(1));
  EXPECT_FALSE(members_.Leave("a", "1"));
  EXPECT_NE(members_.Find("a"), nullptr);
}

TEST_F(MembershipTest, SameInstanceMayJoinAgain) {
  ASSERT_THAT(Join("1", absl::ZeroDuration()), IsOk());
  members_.Assign("a", "job");
  EXPECT_THAT(Join("1", absl::Seconds(1)), IsOk());
  EXPECT_EQ(members_.Find("a")->job_id, "") << "a new session has no job yet";
}

TEST_F(MembershipTest, NamesThatAreNone) {
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(65, 'a'),
                                  std::string("a b"), std::string("a\0b", 3)}) {
    EXPECT_THAT(members_.Join(HelloOf(name, "1"), "", absl::ZeroDuration(), absl::UnixEpoch()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  }
  EXPECT_THAT(Join("", absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("instance")));
}

}  // namespace
}  // namespace tally::testing
