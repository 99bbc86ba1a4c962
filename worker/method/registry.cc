#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/method/distributed_lion/distributed_lion.h"
#include "worker/method/fish/fish.h"
#include "worker/method/gradient_mean/gradient_mean.h"
#include "worker/method/lofi/lofi.h"
#include "worker/method/method.h"

namespace tally {
namespace {

struct MethodEntry {
  const char* name;
  std::unique_ptr<Method> (*make)(const MethodOptions& options, const Layout& layout);
};

constexpr std::array<MethodEntry, 5> kMethods = {{
    {"lofi", MakeLofi},
    {"fish", MakeFish},
    {"distributed_lion", MakeDistributedLion},
    {"global_lion", MakeGradientMean},
    {"global_adamw", MakeGradientMean},
}};

}  // namespace

std::vector<std::string> Methods() {
  std::vector<std::string> names;
  for (const MethodEntry& entry : kMethods) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Method>> MakeMethod(const MethodOptions& options,
                                                   const Layout& layout) {
  for (const MethodEntry& entry : kMethods) {
    if (options.spec.name() == entry.name) return entry.make(options, layout);
  }
  return absl::NotFoundError(absl::StrCat("method: expected one of ",
                                          absl::StrJoin(Methods(), ", "), "; found ",
                                          options.spec.name()));
}

}  // namespace tally
