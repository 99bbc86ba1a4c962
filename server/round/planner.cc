#include "server/round/planner.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/reduction.h"
#include "common/spec/learning_rate.h"

namespace tally {
namespace {

struct MethodRow {
  absl::string_view method;
  absl::string_view aggregation;  // empty: any
  absl::string_view reduction;
  absl::string_view update_rule;
};

// A method is a reduction and an update rule; the worker's side stands in worker/method.
constexpr std::array<MethodRow, 4> kMethods = {{
    {"distributed_lion", "majority", "majority", "sign_step"},
    {"distributed_lion", "average", "sign_mean", "sign_step"},
    {"global_lion", "", "dense_mean", "lion_step"},
    {"global_adamw", "", "dense_mean", "adamw_step"},
}};

absl::StatusOr<MethodRow> FindMethod(const v1::MethodSpec& method) {
  for (const MethodRow& row : kMethods) {
    if (row.method != method.name()) continue;
    if (row.aggregation.empty() || row.aggregation == method.aggregation()) return row;
  }
  return absl::NotFoundError(absl::StrCat("method: no rounds are known for ", method.name(),
                                          " with aggregation \"", method.aggregation(), "\""));
}

}  // namespace

absl::StatusOr<RoundPlanner> RoundPlanner::Create(const v1::JobSpec& spec, const Layout& layout) {
  TALLY_ASSIGN_OR_RETURN(const MethodRow row, FindMethod(spec.method()));
  TALLY_ASSIGN_OR_RETURN(const Reduction* reduction, FindReduction(row.reduction));
  TALLY_ASSIGN_OR_RETURN(const Reduction* dense, FindReduction("dense_mean"));
  RoundPlanner planner(spec, layout.has_buffers());
  planner.reduction_ = std::string(row.reduction);
  planner.update_rule_ = std::string(row.update_rule);
  planner.chunk_elements_ =
      spec.chunk_elements() != 0 ? spec.chunk_elements() : reduction->max_chunk_elements();
  planner.buffers_chunk_elements_ = dense->max_chunk_elements();
  return planner;
}

bool RoundPlanner::Due(uint64_t step, uint64_t every) const {
  return step == spec_.rounds() || (every != 0 && step % every == 0);
}

bool RoundPlanner::AnythingDue(uint64_t step) const {
  return Due(step, spec_.evaluate_every()) || Due(step, spec_.digest_every()) ||
         Due(step, spec_.snapshot_every());
}

bool RoundPlanner::SnapshotAfter(const v1::RoundSpec& round) const {
  return round.buffers() == buffers_ && Due(round.step(), spec_.snapshot_every());
}

void RoundPlanner::MarkDue(uint64_t step, v1::RoundSpec& round) const {
  round.set_evaluate(Due(step, spec_.evaluate_every()));
  round.set_compare_digest(Due(step, spec_.digest_every()));
}

v1::RoundSpec RoundPlanner::TrainingRound(uint64_t number, uint64_t step) const {
  v1::RoundSpec round;
  round.set_round(number);
  round.set_step(step);
  round.set_reduction(reduction_);
  round.set_update_rule(update_rule_);
  round.set_learning_rate(LearningRateAt(spec_.learning_rate(), step, spec_.rounds()));
  round.set_weight_decay(spec_.method().weight_decay());
  round.set_beta1(spec_.method().beta1());
  round.set_beta2(spec_.method().beta2());
  round.set_epsilon(spec_.method().epsilon());
  round.set_chunk_elements(chunk_elements_);
  round.set_tie_key(StreamKey(spec_.seed(), 0, number, RandomPurpose::kTie));
  round.set_zero_ties(spec_.method().ties() == "zero");
  round.set_deadline_ms(spec_.workers().round_deadline_ms());
  if (!buffers_) MarkDue(step, round);
  return round;
}

v1::RoundSpec RoundPlanner::BuffersRound(uint64_t number, uint64_t step) const {
  v1::RoundSpec round;
  round.set_round(number);
  round.set_step(step);
  round.set_reduction("dense_mean");
  round.set_update_rule("assign");
  round.set_buffers(true);
  round.set_chunk_elements(buffers_chunk_elements_);
  round.set_deadline_ms(spec_.workers().round_deadline_ms());
  MarkDue(step, round);
  return round;
}

std::optional<v1::RoundSpec> RoundPlanner::Next(const v1::RoundSpec* last) const {
  if (last == nullptr) return TrainingRound(1, 1);
  const uint64_t number = last->round() + 1;
  if (buffers_ && !last->buffers() && AnythingDue(last->step())) {
    return BuffersRound(number, last->step());
  }
  if (last->step() >= spec_.rounds()) return std::nullopt;
  return TrainingRound(number, last->step() + 1);
}

}  // namespace tally
