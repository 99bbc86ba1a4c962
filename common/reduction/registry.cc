// The table of reductions: one line each. No static registration, which linkers drop from static
// libraries.
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/reduction/dense_mean/dense_mean.h"
#include "common/reduction/majority/majority.h"
#include "common/reduction/reduction.h"
#include "common/reduction/sign_mean/sign_mean.h"
#include "common/reduction/sparse_mean/sparse_mean.h"

namespace tally {
namespace {

// Never destroyed, so that threads still running at exit may use them.
const std::array<const Reduction*, 4>& Table() {
  static const auto* table = new std::array<const Reduction*, 4>{
      new Majority,
      new SignMean,
      new DenseMean,
      new SparseMean,
  };
  return *table;
}

}  // namespace

std::vector<absl::string_view> ReductionNames() {
  std::vector<absl::string_view> names;
  for (const Reduction* reduction : Table()) names.push_back(reduction->name());
  return names;
}

absl::StatusOr<const Reduction*> FindReduction(absl::string_view name) {
  for (const Reduction* reduction : Table()) {
    if (reduction->name() == name) return reduction;
  }
  return absl::NotFoundError(absl::StrCat("no reduction is named '", name, "'; there are ",
                                          absl::StrJoin(ReductionNames(), ", ")));
}

}  // namespace tally
