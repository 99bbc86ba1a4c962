#include "common/spec/check_method.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_join.h"
#include "common/spec/names.h"

namespace tally {
namespace {

constexpr uint32_t kMaxLocalSteps = 1u << 30;
constexpr uint32_t kMaxRecalibrateBatches = 1u << 20;
constexpr uint32_t kMaxFisherSamples = 1u << 24;

bool IsOneOf(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Words(const std::vector<std::string>& names) {
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

// One of `names` where the key belongs, nothing where it does not.
void CheckChoice(bool belongs, const std::vector<std::string>& names, const std::string& found,
                 absl::string_view field, absl::string_view where, Problems& problems) {
  problems.Check(belongs ? IsOneOf(names, found) : found.empty(), field,
                 belongs ? Words(names) : absl::StrCat("no such key unless ", where),
                 Quoted(found));
}

void CheckLionChoices(const v1::MethodSpec& method, Problems& problems) {
  const bool lion = method.name() == "distributed_lion";
  CheckChoice(lion, AggregationNames(), method.aggregation(), "method.aggregation",
              "the method is distributed_lion", problems);
  CheckChoice(lion && method.aggregation() == "majority", TieNames(), method.ties(), "method.ties",
              "the aggregation is majority", problems);
}

void CheckBeta(bool belongs, double beta, absl::string_view field, Problems& problems) {
  problems.Check(belongs ? beta >= 0 && beta < 1 : beta == 0, field,
                 belongs ? "a number from 0, below 1" : "no such key with sgd", beta);
}

void CheckNumbers(const v1::MethodSpec& method, Problems& problems) {
  const std::string optimiser = OptimiserOf(method);
  CheckBeta(optimiser != "sgd", method.beta1(), "method.beta1", problems);
  CheckBeta(optimiser != "sgd", method.beta2(), "method.beta2", problems);
  const bool adamw = optimiser == "adamw";
  const double epsilon = method.epsilon();
  problems.Check(adamw ? std::isfinite(epsilon) && epsilon > 0 : epsilon == 0, "method.epsilon",
                 adamw ? "a number above 0" : "no such key unless the optimiser is AdamW", epsilon);
}

void CheckLocal(const v1::MethodSpec& method, Problems& problems) {
  const v1::LocalSpec& local = method.local();
  problems.Check(local.steps() >= 1 && local.steps() <= kMaxLocalSteps, "method.local.steps",
                 absl::StrCat("1 to ", kMaxLocalSteps), local.steps());
  CheckChoice(true, LocalOptimiserNames(), local.optimiser(), "method.local.optimiser", "",
              problems);
  const bool sgd = local.optimiser() == "sgd";
  problems.Check(sgd ? local.momentum() >= 0 && local.momentum() < 1 : local.momentum() == 0,
                 "method.local.momentum",
                 sgd ? "a number from 0, below 1" : "no such key unless the optimiser is sgd",
                 local.momentum());
  CheckChoice(true, DtypeNames(method.name()), local.dtype(), "method.local.dtype", "", problems);
  CheckChoice(true, WeightNames(), local.weights(), "method.local.weights", "", problems);
}

void CheckLofi(const v1::JobSpec& spec, Problems& problems) {
  const v1::LofiSpec& lofi = spec.method().lofi();
  CheckChoice(true, OuterNames(), lofi.outer(), "method.lofi.outer", "", problems);
  const double rate = lofi.outer_learning_rate();
  problems.Check(std::isfinite(rate) && rate > 0, "method.lofi.outer_learning_rate",
                 "a number above 0", rate);
  const bool has_momentum = lofi.outer() == "momentum" || lofi.outer() == "nesterov";
  const double momentum = lofi.outer_momentum();
  problems.Check(has_momentum ? momentum > 0 && momentum < 1 : momentum == 0,
                 "method.lofi.outer_momentum",
                 has_momentum ? "a number between 0 and 1" : "no such key with the outer sgd",
                 momentum);
  CheckChoice(true, SoupNames(), lofi.soup(), "method.lofi.soup", "", problems);
  problems.Check(lofi.soup() != "greedy" || lofi.outer() == "sgd", "method.lofi.outer",
                 "sgd with a greedy soup", Quoted(lofi.outer()));
  problems.Check(lofi.soup() != "greedy" || spec.data().hold_out_every() >= 2,
                 "data.hold_out_every", "at least 2, so that a greedy soup has rows to score on",
                 spec.data().hold_out_every());
  problems.Check(lofi.recalibrate_batches() <= kMaxRecalibrateBatches,
                 "method.lofi.recalibrate_batches", absl::StrCat("0 to ", kMaxRecalibrateBatches),
                 lofi.recalibrate_batches());
}

void CheckFish(const v1::FishSpec& fish, Problems& problems) {
  const bool has_density = fish.density() != 0;
  problems.Check(has_density != (fish.mask_size() != 0), "method.fish.density",
                 "either a density or a mask_size",
                 has_density ? "both" : "neither");
  problems.Check(!has_density || (fish.density() > 0 && fish.density() <= 1),
                 "method.fish.density", "a number above 0, up to 1", fish.density());
  CheckChoice(true, FisherNames(), fish.fisher(), "method.fish.fisher", "", problems);
  const bool random = fish.fisher() == "random";
  const uint32_t samples = fish.samples();
  problems.Check(random ? samples == 0 : samples >= 1 && samples <= kMaxFisherSamples,
                 "method.fish.samples",
                 random ? "no such key with a random mask" : absl::StrCat("1 to ", kMaxFisherSamples),
                 samples);
}

void CheckSections(const v1::JobSpec& spec, Problems& problems) {
  const v1::MethodSpec& method = spec.method();
  const bool lofi = method.name() == "lofi";
  const bool fish = method.name() == "fish";
  problems.Check(lofi || fish || !method.has_local(), "method.local",
                 "no such key unless the method is lofi or fish", "one");
  problems.Check(lofi || !method.has_lofi(), "method.lofi",
                 "no such key unless the method is lofi", "one");
  problems.Check(fish || !method.has_fish(), "method.fish",
                 "no such key unless the method is fish", "one");
  if (lofi || fish) CheckLocal(method, problems);
  if (lofi) CheckLofi(spec, problems);
  if (fish) CheckFish(method.fish(), problems);
}

}  // namespace

void CheckMethod(const v1::JobSpec& spec, Problems& problems) {
  const v1::MethodSpec& method = spec.method();
  const bool known = IsOneOf(MethodNames(), method.name());
  problems.Check(known, "method.name", Words(MethodNames()), Quoted(method.name()));
  problems.Check(std::isfinite(method.weight_decay()) && method.weight_decay() >= 0,
                 "method.weight_decay", "a number of at least 0", method.weight_decay());
  if (!known) return;
  CheckLionChoices(method, problems);
  CheckNumbers(method, problems);
  CheckSections(spec, problems);
}

}  // namespace tally
