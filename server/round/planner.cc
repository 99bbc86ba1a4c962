#include "server/round/planner.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/reduction/reduction.h"
#include "common/spec/learning_rate.h"
#include "common/spec/names.h"

namespace tally {
namespace {

struct MethodRow {
  absl::string_view method;
  absl::string_view choice;  // the aggregation or outer optimiser; empty: any
  absl::string_view reduction;
  absl::string_view update_rule;
};

// A method is a reduction and an update rule; the worker's side stands in worker/method.
constexpr std::array<MethodRow, 8> kMethods = {{
    {"distributed_lion", "majority", "majority", "sign_step"},
    {"distributed_lion", "average", "sign_mean", "sign_step"},
    {"global_lion", "", "dense_mean", "lion_step"},
    {"global_adamw", "", "dense_mean", "adamw_step"},
    {"lofi", "sgd", "dense_mean", "outer_sgd"},
    {"lofi", "momentum", "dense_mean", "outer_momentum"},
    {"lofi", "nesterov", "dense_mean", "outer_nesterov"},
    {"fish", "", "sparse_mean", "sparse_add"},
}};

absl::StatusOr<MethodRow> FindMethod(const v1::MethodSpec& method) {
  const std::string& choice =
      method.name() == "lofi" ? method.lofi().outer() : method.aggregation();
  for (const MethodRow& row : kMethods) {
    if (row.method == method.name() && (row.choice.empty() || row.choice == choice)) return row;
  }
  return absl::NotFoundError(absl::StrCat("method: no rounds are known for ", method.name(),
                                          " with \"", choice, "\""));
}

// Scores travel as float32 and masks as sets: larger chunks than values alone would have, for fewer
// heads of the many small sets.
constexpr uint32_t kMaskChunkElements = 1u << 20;

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
  if (spec.method().name() == "fish") TALLY_RETURN_IF_ERROR(planner.SizeMask(layout));
  planner.buffers_chunk_elements_ = dense->max_chunk_elements();
  return planner;
}

absl::Status RoundPlanner::SizeMask(const Layout& layout) {
  const v1::FishSpec& fish = spec_.method().fish();
  const uint64_t trained = layout.trained_size();
  mask_size_ = fish.mask_size() != 0
                   ? fish.mask_size()
                   : static_cast<uint64_t>(std::llround(fish.density() * static_cast<double>(trained)));
  const uint64_t head = layout.blocks()[layout.trained_blocks() - 1].count;
  if (mask_size_ >= head && mask_size_ <= trained) {
    if (spec_.chunk_elements() == 0) chunk_elements_ = kMaskChunkElements;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "method.fish: expected a mask of the head's ", head, " elements, which are always trained, to ",
      trained, ", found ", mask_size_));
}

bool RoundPlanner::Due(uint64_t step, uint64_t every) const {
  return step == spec_.rounds() || (every != 0 && step % every == 0);
}

bool RoundPlanner::AnythingDue(uint64_t step) const {
  return Due(step, spec_.evaluate_every()) || Due(step, spec_.digest_every()) ||
         Due(step, spec_.snapshot_every());
}

bool RoundPlanner::SnapshotAfter(const v1::RoundSpec& round) const {
  return round.mask_size() == 0 && round.buffers() == buffers_ &&
         Due(round.step(), spec_.snapshot_every());
}

void RoundPlanner::MarkDue(uint64_t step, v1::RoundSpec& round) const {
  round.set_evaluate(Due(step, spec_.evaluate_every()));
  round.set_compare_digest(Due(step, spec_.digest_every()));
}

v1::RoundSpec RoundPlanner::NewRound(uint64_t number, uint64_t step, uint64_t mask_round) const {
  v1::RoundSpec round;
  round.set_round(number);
  round.set_step(step);
  round.set_mask_round(mask_round);
  round.set_deadline_ms(spec_.workers().round_deadline_ms());
  return round;
}

// The numbers of the job are the workers' own; the round's are the outer optimiser's.
void RoundPlanner::SetLocal(v1::RoundSpec& round) const {
  const v1::MethodSpec& method = spec_.method();
  const bool lofi = method.name() == "lofi";
  round.set_learning_rate(lofi ? method.lofi().outer_learning_rate() : 1);
  round.set_weight_decay(0);
  round.set_beta1(lofi ? method.lofi().outer_momentum() : 0);
  round.set_beta2(0);
  round.set_epsilon(0);
  round.set_local_steps(method.local().steps());
  round.set_dtype(method.local().dtype());
  round.set_uniform_weights(method.local().weights() == "uniform");
  round.set_greedy_soup(lofi && method.lofi().soup() == "greedy");
}

v1::RoundSpec RoundPlanner::TrainingRound(uint64_t number, uint64_t step,
                                          uint64_t mask_round) const {
  v1::RoundSpec round = NewRound(number, step, mask_round);
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
  if (HasLocalSteps(spec_.method())) SetLocal(round);
  if (!buffers_) MarkDue(step, round);
  return round;
}

v1::RoundSpec RoundPlanner::BuffersRound(uint64_t number, uint64_t step,
                                         uint64_t mask_round) const {
  v1::RoundSpec round = NewRound(number, step, mask_round);
  round.set_reduction("dense_mean");
  round.set_update_rule("assign");
  round.set_buffers(true);
  round.set_chunk_elements(buffers_chunk_elements_);
  round.set_uniform_weights(spec_.method().local().weights() == "uniform");
  round.set_recalibrate_batches(spec_.method().lofi().recalibrate_batches());
  MarkDue(step, round);
  return round;
}

v1::RoundSpec RoundPlanner::MaskRound(uint64_t number, uint64_t step) const {
  v1::RoundSpec round = NewRound(number, step, 0);
  round.set_reduction("dense_mean");
  round.set_update_rule("set_mask");
  round.set_chunk_elements(chunk_elements_);
  round.set_mask_size(mask_size_);
  round.set_fisher(spec_.method().fish().fisher());
  round.set_fisher_samples(spec_.method().fish().samples());
  round.set_tie_key(StreamKey(spec_.seed(), 0, number, RandomPurpose::kTie));  // of a random mask
  return round;
}

// After the rounds of a step, of which `last` is the last one; null: before the first.
bool RoundPlanner::MaskDue(const v1::RoundSpec* last) const {
  if (mask_size_ == 0) return false;
  if (last == nullptr) return true;
  const uint64_t every = spec_.method().fish().refresh_every();
  return last->mask_size() == 0 && every != 0 && last->step() % every == 0;
}

std::optional<v1::RoundSpec> RoundPlanner::Next(const v1::RoundSpec* last) const {
  if (last == nullptr) return MaskDue(last) ? MaskRound(1, 0) : TrainingRound(1, 1, 0);
  const uint64_t number = last->round() + 1;
  const bool is_mask = last->mask_size() != 0;
  const uint64_t mask_round = is_mask ? last->round() : last->mask_round();
  if (buffers_ && !is_mask && !last->buffers() && AnythingDue(last->step())) {
    return BuffersRound(number, last->step(), mask_round);
  }
  if (last->step() >= spec_.rounds()) return std::nullopt;
  if (MaskDue(last)) return MaskRound(number, last->step());
  return TrainingRound(number, last->step() + 1, mask_round);
}

}  // namespace tally
