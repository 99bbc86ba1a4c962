#include "worker/load_parameters.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "spdlog/spdlog.h"

namespace tally {
namespace {

bool IsCounter(const std::string& name) { return absl::EndsWith(name, "num_batches_tracked"); }

// What keeps `tensor` from being read into `place`; empty if nothing.
std::string Mismatch(const LayoutTensor& place, const TensorInfo* tensor) {
  if (tensor == nullptr) return absl::StrCat(place.name, ": missing");
  if (place.shape == tensor->shape && IsFloatingPoint(tensor->dtype)) return "";
  return absl::StrCat(place.name, ": expected floating-point [", absl::StrJoin(place.shape, ", "),
                      "], found ", DescribeType(*tensor));
}

// The tensors of the layout that a checkpoint must hold.
std::vector<const LayoutTensor*> Wanted(const Layout& layout, const LoadOptions& options) {
  std::vector<const LayoutTensor*> wanted;
  const uint32_t head = layout.trained_blocks() - 1;
  for (const LayoutTensor& tensor : layout.tensors()) {
    if (!options.skip_head || tensor.block != head) wanted.push_back(&tensor);
  }
  return wanted;
}

std::vector<std::string> Unexpected(const Layout& layout, const CheckpointReader& checkpoint) {
  absl::flat_hash_set<absl::string_view> known;
  for (const LayoutTensor& tensor : layout.tensors()) known.insert(tensor.name);
  std::vector<std::string> problems;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (known.contains(tensor.name)) continue;
    if (IsCounter(tensor.name)) {
      spdlog::info("{}: {} is left out: counters are not averaged", checkpoint.path(), tensor.name);
    } else {
      problems.push_back(absl::StrCat(tensor.name, ": unexpected, ", DescribeType(tensor)));
    }
  }
  return problems;
}

}  // namespace

absl::Status LoadParameters(const CheckpointReader& checkpoint, const Layout& layout,
                            const LoadOptions& options, absl::Span<float> parameters) {
  const std::vector<const LayoutTensor*> wanted = Wanted(layout, options);
  std::vector<std::string> problems = Unexpected(layout, checkpoint);
  bool only_head = problems.empty();
  for (const LayoutTensor* place : wanted) {
    std::string problem = Mismatch(*place, checkpoint.Find(place->name));
    if (problem.empty()) continue;
    only_head = only_head && place->block == layout.trained_blocks() - 1;
    problems.push_back(std::move(problem));
  }
  if (!problems.empty()) {
    if (only_head) problems.push_back("only the head differs: reset_head: true begins it anew");
    for (std::string& problem : problems) problem = absl::StrCat(checkpoint.path(), ": ", problem);
    return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  }
  for (const LayoutTensor* place : wanted) {
    TALLY_RETURN_IF_ERROR(checkpoint.ReadAsFloat(*checkpoint.Find(place->name),
                                                 parameters.subspan(place->first, place->count)));
  }
  return absl::OkStatus();
}

}  // namespace tally
