#include "common/rpc/proxy.h"

#include <map>
#include <string>

#include "gtest/gtest.h"

namespace tally {
namespace {

std::string InEffect(absl::string_view host, std::map<std::string, std::string> variables) {
  return ProxyInEffect(host, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ProxyInEffect, NamesTheVariable) {
  EXPECT_EQ(InEffect("server", {}), "");
  EXPECT_EQ(InEffect("server", {{"http_proxy", "http://p:1"}}), "http_proxy=http://p:1");
  EXPECT_EQ(InEffect("server", {{"http_proxy", "http://p:1"}, {"grpc_proxy", "http://q:1"}}),
            "grpc_proxy=http://q:1");
  EXPECT_EQ(InEffect("server", {{"http_proxy", ""}}), "");
}

TEST(ProxyInEffect, ObeysNoProxySuffixes) {
  EXPECT_EQ(InEffect("a.lan", {{"http_proxy", "http://p:1"}, {"no_proxy", "x, .lan"}}), "");
  EXPECT_EQ(InEffect("a.net", {{"http_proxy", "http://p:1"}, {"no_proxy", "x,.lan"}}),
            "http_proxy=http://p:1");
}

TEST(ProxyInEffect, KeepsThePasswordToItself) {
  EXPECT_EQ(InEffect("server", {{"http_proxy", "http://me:secret@p:1"}}),
            "http_proxy=http://***@p:1");
}

}  // namespace
}  // namespace tally
