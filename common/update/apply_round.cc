#include "common/update/apply_round.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/fault_point.h"
#include "common/base/status.h"
#include "common/layout/chunk_grid.h"
#include "common/update/update_rule.h"

namespace tally {
namespace {

// Which rule takes which reduction's aggregates. A rule looks at one payload at a time and could
// take a few of another reduction for its own, by their length, before it finds one it cannot.
constexpr std::pair<absl::string_view, absl::string_view> kRuleAndReduction[] = {
    {"sign_step", "majority"},   {"sign_step", "sign_mean"}, {"lion_step", "dense_mean"},
    {"adamw_step", "dense_mean"}, {"assign", "dense_mean"},    {"outer_sgd", "dense_mean"},
    {"outer_momentum", "dense_mean"}, {"outer_nesterov", "dense_mean"},
    {"set_mask", "dense_mean"},  {"sparse_add", "sparse_mean"},
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

absl::Status CheckAggregates(const v1::RoundSpec& spec, const ChunkGrid& grid, const Mask* mask,
                             absl::Span<const ByteSpan> aggregates) {
  if (aggregates.size() != grid.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", grid.size(), " chunks, found ", aggregates.size()));
  }
  for (uint32_t i = 0; i < grid.size(); ++i) {
    TALLY_RETURN_IF_ERROR(WithContext(CheckAggregateChunk(spec, mask, grid[i], aggregates[i]),
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

// Elements that all rounds of a pass go over before the next ones: they and their state stay in the
// second cache meanwhile. Whole lanes.
constexpr uint32_t kPassElements = 32 * 1024;

// Rounds of one rule, in their order.
struct Run {
  const UpdateRule* rule;
  std::vector<absl::Span<const ByteSpan>> aggregates;
  std::vector<UpdateStep> steps;  // of the chunk at hand
};

absl::StatusOr<const UpdateRule*> CheckRound(const Layout& layout, const LedgerStep& round,
                                             const ChunkGrid& grid, const Mask* mask,
                                             absl::Span<float> parameters,
                                             absl::Span<const absl::Span<float>> state) {
  const v1::RoundSpec& spec = *round.spec;
  TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(spec.reduction()));
  TALLY_ASSIGN_OR_RETURN(const UpdateRule* rule, FindUpdateRule(spec.update_rule()));
  TALLY_RETURN_IF_ERROR(CheckPair(rule->name(), reduction->name()));
  TALLY_RETURN_IF_ERROR(CheckSizes(layout, *rule, parameters, state));
  TALLY_RETURN_IF_ERROR(CheckAggregates(spec, grid, mask, round.aggregates));
  TALLY_RETURN_IF_ERROR(rule->Check(ContextOf(spec)));
  return rule;
}

absl::Status CheckFollows(const v1::RoundSpec& before, const v1::RoundSpec& spec) {
  if (spec.round() != before.round() + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected round ", before.round() + 1, " in the same pass"));
  }
  if (SameGrid(before, spec)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its chunks are not those of round ", before.round(), " in the same pass"));
}

void AddTo(std::vector<Run>& runs, const UpdateRule* rule, const LedgerStep& round) {
  if (runs.empty() || runs.back().rule != rule) runs.push_back({rule, {}, {}});
  runs.back().aggregates.push_back(round.aggregates);
  runs.back().steps.push_back({ContextOf(*round.spec), {}, nullptr});
}

absl::StatusOr<std::vector<Run>> CheckAll(const Layout& layout, absl::Span<const LedgerStep> rounds,
                                          const ChunkGrid& grid, const Mask* mask,
                                          absl::Span<float> parameters,
                                          absl::Span<const absl::Span<float>> state) {
  std::vector<Run> runs;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const std::string where = absl::StrCat("round ", rounds[i].spec->round());
    if (i > 0) {
      TALLY_RETURN_IF_ERROR(
          WithContext(CheckFollows(*rounds[i - 1].spec, *rounds[i].spec), where));
    }
    const auto rule = CheckRound(layout, rounds[i], grid, mask, parameters, state);
    if (!rule.ok()) return WithContext(rule.status(), where);
    AddTo(runs, *rule, rounds[i]);
  }
  return runs;
}

// All rounds on the elements from `first` of the chunk on.
absl::Status ApplyPart(absl::Span<const Run> runs, const Chunk& chunk, uint32_t first,
                       absl::Span<float> parameters, absl::Span<const absl::Span<float>> state) {
  const uint32_t count = std::min(kPassElements, chunk.count - first);
  for (const Run& run : runs) {
    std::vector<absl::Span<float>> slots(static_cast<size_t>(run.rule->state_slots()));
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      slots[slot] = state[slot].subspan(chunk.first + first, count);
    }
    TALLY_RETURN_IF_ERROR(run.rule->ApplyAll(run.steps, {chunk.count, first},
                                             parameters.subspan(chunk.first + first, count),
                                             slots));
  }
  return absl::OkStatus();
}

absl::Status Apply(std::vector<Run> runs, const ChunkGrid& grid, const Mask* mask,
                   absl::Span<float> parameters, absl::Span<const absl::Span<float>> state) {
  for (uint32_t i = 0; i < grid.size(); ++i) {
    const IndexSet* set = mask == nullptr ? nullptr : mask->Find(grid[i]);
    for (Run& run : runs) {
      for (size_t round = 0; round < run.steps.size(); ++round) {
        run.steps[round].aggregate = run.aggregates[round][i];
        run.steps[round].mask = set;
      }
    }
    for (uint64_t first = 0; first < grid[i].count; first += kPassElements) {
      TALLY_RETURN_IF_ERROR(
          ApplyPart(runs, grid[i], static_cast<uint32_t>(first), parameters, state));
    }
    if (i == grid.size() / 2) FaultPoint("fold.mid_pass");
  }
  return absl::OkStatus();
}

}  // namespace

bool SameGrid(const v1::RoundSpec& a, const v1::RoundSpec& b) {
  return a.chunk_elements() == b.chunk_elements() && a.buffers() == b.buffers() &&
         a.first_active_block() == b.first_active_block() && a.mask_size() == 0 &&
         b.mask_size() == 0 && a.mask_round() == b.mask_round();
}

absl::Status ApplyRounds(const Layout& layout, absl::Span<const LedgerStep> rounds,
                         absl::Span<float> parameters, absl::Span<const absl::Span<float>> state,
                         MaskPointer* mask) {
  if (rounds.empty()) return absl::OkStatus();
  const v1::RoundSpec& first = *rounds.front().spec;
  const Mask* in_force = mask == nullptr ? nullptr : mask->get();
  TALLY_ASSIGN_OR_RETURN(const ChunkGrid grid, GridForRound(layout, first));
  TALLY_ASSIGN_OR_RETURN(std::vector<Run> runs,
                         CheckAll(layout, rounds, grid, in_force, parameters, state));
  if (first.mask_size() == 0) return Apply(std::move(runs), grid, in_force, parameters, state);
  auto made = Mask::Create(layout, first, rounds.front().aggregates);
  if (!made.ok()) return WithContext(made.status(), absl::StrCat("round ", first.round()));
  if (mask != nullptr) *mask = *std::move(made);
  return absl::OkStatus();
}

absl::Status ApplyRound(const Layout& layout, const v1::RoundSpec& spec,
                        absl::Span<const ByteSpan> aggregates, absl::Span<float> parameters,
                        absl::Span<const absl::Span<float>> state, MaskPointer* mask) {
  return ApplyRounds(layout, {LedgerStep{&spec, aggregates}}, parameters, state, mask);
}

}  // namespace tally
