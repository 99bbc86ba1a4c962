#include "common/rpc/address.h"

#include <string>

#include "common/base/status_matchers.h"

namespace tally {
namespace {

using ::tally::testing::StatusIs;
using ::testing::HasSubstr;

TEST(ParseAddress, RoundTripsWhatIsValid) {
  for (const char* text : {"127.0.0.1:7070", "0.0.0.0:0", "localhost:65535", "[::1]:0",
                           "[fe80::1%eth0]:7070", "node-1.cluster_a.example:1"}) {
    TALLY_ASSERT_OK_AND_ASSIGN(const Address address, ParseAddress(text));
    EXPECT_EQ(address.ToString(), text);
  }
}

TEST(ParseAddress, TakesBracketsOffTheHost) {
  TALLY_ASSERT_OK_AND_ASSIGN(const Address address, ParseAddress("[::1]:50051"));
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, 50051);
}

struct Bad {
  std::string text;
  const char* message;
};
class BadAddress : public ::testing::TestWithParam<Bad> {};

TEST_P(BadAddress, SaysWhatIsWrong) {
  EXPECT_THAT(ParseAddress(GetParam().text),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadAddress,
    ::testing::Values(Bad{"host:99999", "from 0 to 65535, found \"99999\""},
                      Bad{"host:4294967296", "from 0 to 65535"}, Bad{"host:-1", "found \"-1\""},
                      Bad{"host:+1", "found \"+1\""}, Bad{"host:", "found \"\""},
                      Bad{"host: 1", "found \" 1\""}, Bad{"::1:50051", "in brackets"},
                      Bad{"host", "found no port"}, Bad{"", "found no port"},
                      Bad{":7070", "before the colon"}, Bad{"a b:7070", "before the colon"},
                      Bad{"http://host:7070", "in brackets"}, Bad{"[::1]", "[IPv6]:port"},
                      Bad{"[::1]7070", "[IPv6]:port"}, Bad{"[host]:7070", "IPv6 address in"},
                      Bad{"[::1]:x", "found \"x\""}, Bad{std::string("a\0b:1", 5), "\\x00"},
                      Bad{std::string(5000, 'a') + ":1", "before the colon"}));

TEST(IsLoopback, KnowsTheLoopbackNetworks) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "LocalHost:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLoopback(*ParseAddress(text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1", "host:1"}) {
    EXPECT_FALSE(IsLoopback(*ParseAddress(text))) << text;
  }
}

}  // namespace
}  // namespace tally
