#include "server/service/peer.h"

#include "gtest/gtest.h"

namespace tally {
namespace {

TEST(AddressOfPeer, IsHostAndPort) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.1:5"), "10.0.0.1:5");
  EXPECT_EQ(AddressOfPeer("ipv6:[::1]:5"), "[::1]:5");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::1%5D:5"), "[::1]:5");
  EXPECT_EQ(AddressOfPeer("ipv6:%5Bfe80::1%25eth0%5D:5"), "[fe80::1%eth0]:5");
  EXPECT_EQ(AddressOfPeer("unix:/tmp/x"), "unix:/tmp/x");
  EXPECT_EQ(AddressOfPeer(""), "");
}

}  // namespace
}  // namespace tally
