#include "common/rpc/proxy.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tally {
namespace {

std::string First(std::initializer_list<const char*> names, const Environment& environment,
                  std::string* name_found) {
  for (const char* name : names) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') {
      *name_found = name;
      return value;
    }
  }
  return "";
}

bool IsExempt(absl::string_view host, const Environment& environment) {
  std::string name;
  const std::string list = First({"no_grpc_proxy", "no_proxy"}, environment, &name);
  const std::vector<std::string> entries = absl::StrSplit(list, ',', absl::SkipWhitespace());
  return std::any_of(entries.begin(), entries.end(), [host](const std::string& entry) {
    return absl::EndsWithIgnoreCase(host, absl::StripAsciiWhitespace(entry));
  });
}

std::string WithoutPassword(const std::string& url) {
  const size_t at = url.rfind('@');
  if (at == std::string::npos) return url;
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  return absl::StrCat(url.substr(0, begin), "***", url.substr(at));
}

}  // namespace

std::string ProxyInEffect(absl::string_view host, const Environment& environment) {
  std::string name;
  const std::string value = First({"grpc_proxy", "https_proxy", "http_proxy"}, environment, &name);
  if (value.empty() || IsExempt(host, environment)) return "";
  return absl::StrCat(name, "=", WithoutPassword(value));
}

}  // namespace tally
