#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/model/architecture.h"

namespace tally {
namespace {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

bool HasPrefix(absl::string_view name, absl::string_view prefix) {
  return absl::StartsWith(name, prefix) &&
         (name.size() == prefix.size() || name[prefix.size()] == '.');
}

Named ParametersOf(Architecture& architecture) {
  Named parameters;
  for (const auto& item : architecture.module().named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

absl::Status Take(const Named& all, const BlockSpec& spec, const std::string& prefix,
                  absl::flat_hash_set<std::string>& taken, Named& out) {
  const size_t before = out.size();
  for (const auto& [name, tensor] : all) {
    if (!HasPrefix(name, prefix)) continue;
    if (!taken.insert(name).second) {
      return absl::InternalError(absl::StrCat("block ", spec.name, ": parameter ", name,
                                              " belongs to an earlier block or prefix too"));
    }
    out.emplace_back(name, tensor);
  }
  if (out.size() > before) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("block ", spec.name, ": no parameter is or lies below ", prefix));
}

}  // namespace

absl::StatusOr<std::vector<BlockParameters>> BlocksOf(Architecture& architecture) {
  const Named all = ParametersOf(architecture);
  absl::flat_hash_set<std::string> taken;
  std::vector<BlockParameters> blocks;
  for (const BlockSpec& spec : architecture.Blocks()) {
    BlockParameters block{spec.name, {}};
    for (const std::string& prefix : spec.prefixes) {
      TALLY_RETURN_IF_ERROR(Take(all, spec, prefix, taken, block.parameters));
    }
    blocks.push_back(std::move(block));
  }
  for (const auto& [name, tensor] : all) {
    if (!taken.contains(name)) {
      return absl::InternalError(absl::StrCat("parameter ", name, " belongs to no block"));
    }
  }
  return blocks;
}

Named FloatBuffersOf(Architecture& architecture) {
  Named buffers;
  for (const auto& item : architecture.module().named_buffers()) {
    if (item.value().is_floating_point()) buffers.emplace_back(item.key(), item.value());
  }
  return buffers;
}

}  // namespace tally
