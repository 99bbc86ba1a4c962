#include "common/update/apply_round.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "common/update/update_rule.h"

namespace tally {
namespace {

// Which rule takes which reduction's aggregates. A rule looks at one payload at a time and could
// take a few of another reduction for its own, by their length, before it finds one it cannot.
constexpr std::pair<absl::string_view, absl::string_view> kRuleAndReduction[] = {
    {"sign_step", "majority"},   {"sign_step", "sign_mean"}, {"lion_step", "dense_mean"},
    {"adamw_step", "dense_mean"}, {"assign", "dense_mean"},
};

absl::Status CheckPair(absl::string_view rule, absl::string_view reduction) {
  const auto* end = std::end(kRuleAndReduction);
  if (std::find(std::begin(kRuleAndReduction), end, std::pair(rule, reduction)) != end) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the update rule ", rule, " takes no aggregates of ", reduction));
}

absl::Status CheckSizes(const Layout& layout, const UpdateRule& rule,
                        absl::Span<float> parameters,
                        absl::Span<const absl::Span<float>> state) {
  if (parameters.size() != layout.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", layout.size(), " parameters, found ", parameters.size()));
  }
  if (state.size() < static_cast<size_t>(rule.state_slots())) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", rule.state_slots(),
                                                   " or more state arrays, found ", state.size()));
  }
  for (const absl::Span<float> slot : state) {
    if (slot.size() == layout.size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("expected state arrays of ", layout.size(),
                                                   " elements, found ", slot.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckAggregates(const Reduction& reduction, const ChunkGrid& grid,
                             absl::Span<const ByteSpan> aggregates) {
  if (aggregates.size() != grid.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", grid.size(), " chunks, found ", aggregates.size()));
  }
  for (uint32_t i = 0; i < grid.size(); ++i) {
    TALLY_RETURN_IF_ERROR(WithContext(reduction.CheckAggregate(grid[i].count, aggregates[i]),
                                      absl::StrCat("chunk ", i)));
  }
  return absl::OkStatus();
}

UpdateContext ContextOf(const v1::RoundSpec& spec) {
  UpdateContext context;
  context.learning_rate = spec.learning_rate();
  context.weight_decay = spec.weight_decay();
  context.beta1 = spec.beta1();
  context.beta2 = spec.beta2();
  context.epsilon = spec.epsilon();
  context.round = spec.round();
  context.step = spec.step();
  return context;
}

absl::Status Apply(const UpdateRule& rule, const UpdateContext& context, const ChunkGrid& grid,
                   absl::Span<const ByteSpan> aggregates, absl::Span<float> parameters,
                   absl::Span<const absl::Span<float>> state) {
  std::vector<absl::Span<float>> slots(static_cast<size_t>(rule.state_slots()));
  for (uint32_t i = 0; i < grid.size(); ++i) {
    const Chunk& chunk = grid[i];
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      slots[slot] = state[slot].subspan(chunk.first, chunk.count);
    }
    // Only the first chunk can be refused: what the rule checks of the context is the same for all.
    TALLY_RETURN_IF_ERROR(
        rule.Apply(context, aggregates[i], parameters.subspan(chunk.first, chunk.count), slots));
  }
  return absl::OkStatus();
}

absl::Status CheckThenApply(const Layout& layout, const v1::RoundSpec& spec,
                            absl::Span<const ByteSpan> aggregates, absl::Span<float> parameters,
                            absl::Span<const absl::Span<float>> state) {
  TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(spec.reduction()));
  TALLY_ASSIGN_OR_RETURN(const UpdateRule* rule, FindUpdateRule(spec.update_rule()));
  TALLY_RETURN_IF_ERROR(CheckPair(rule->name(), reduction->name()));
  TALLY_ASSIGN_OR_RETURN(const ChunkGrid grid, GridForRound(layout, spec));
  TALLY_RETURN_IF_ERROR(CheckSizes(layout, *rule, parameters, state));
  TALLY_RETURN_IF_ERROR(CheckAggregates(*reduction, grid, aggregates));
  return Apply(*rule, ContextOf(spec), grid, aggregates, parameters, state);
}

}  // namespace

absl::Status ApplyRound(const Layout& layout, const v1::RoundSpec& spec,
                        absl::Span<const ByteSpan> aggregates, absl::Span<float> parameters,
                        absl::Span<const absl::Span<float>> state) {
  return WithContext(CheckThenApply(layout, spec, aggregates, parameters, state),
                     absl::StrCat("round ", spec.round()));
}

}  // namespace tally
